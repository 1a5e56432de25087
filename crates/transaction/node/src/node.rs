//! A client of one node, which verifies the answers to its requests.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use bytes::Bytes;
use ckb_types::{
    H256,
    core::{HeaderView, TransactionView},
    packed::{self, OutPoint},
    prelude::*,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{
    cache::{NodeCache, Space},
    check,
    error::{NodeError, NodeRequest},
    limits,
    options::NodeOptions,
    rpc::{self, Calls},
    shapes::{ConsensusAnswer, Form, HeaderShape, LiveCellAnswer, StatusShape, TransactionAnswer},
    transport::Transport,
};

/// A client of one node. Cheap to clone.
#[derive(Clone)]
pub struct ChainNode {
    transport: Transport,
    cache: Arc<NodeCache>,
}

/// The block of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockPosition {
    /// Its hash.
    pub block_hash: H256,
    /// Its number, if the node returns it.
    pub number: Option<u64>,
}

/// State of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionState {
    /// In the pool, not in a block yet.
    InPool,
    /// In a block.
    Committed(BlockPosition),
}

/// A transaction that the node has. Its hash does not cover its witnesses.
#[derive(Clone, Debug)]
pub struct FoundTransaction {
    /// The transaction, with a computed hash.
    pub transaction: TransactionView,
    /// Its state, unverified.
    pub state: TransactionState,
    /// Its cycles, unverified.
    pub cycles: Option<u64>,
}

/// The rules of a node's chain that matter to scripts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainRules {
    /// Its name: `ckb` is the main network.
    pub chain: String,
    /// First epoch in which VM version 1 runs; `None` if it never does.
    pub vm_1_epoch: Option<u64>,
    /// First epoch in which VM version 2 runs.
    pub vm_2_epoch: Option<u64>,
}

impl ChainNode {
    /// The node at `http[s]://HOST[:PORT][/PATH]`. Connects only when needed.
    ///
    /// # Errors
    /// The address is invalid, or it needs TLS and there are no root certificates.
    pub fn new(url: &str, options: NodeOptions) -> Result<Self, NodeError> {
        let cache =
            NodeCache::new(options.memory_bytes_max, options.folder.as_deref(), options.disk_bytes_max);
        Ok(Self { transport: Transport::new(url, options)?, cache: Arc::new(cache) })
    }

    /// Its address, for messages.
    #[must_use]
    pub fn name(&self) -> &str {
        self.transport.name()
    }

    pub(crate) fn transport(&self) -> &Transport {
        &self.transport
    }

    pub(crate) fn cache(&self) -> &NodeCache {
        &self.cache
    }

    pub(crate) fn lie(&self, request: NodeRequest, detail: String) -> NodeError {
        NodeError::Lie { url: self.name().to_owned(), request, detail }
    }

    pub(crate) fn unknown(&self, request: NodeRequest, why: String) -> NodeError {
        NodeError::Unknown { url: self.name().to_owned(), request, why }
    }

    /// Caches a transaction for others that use its cells.
    pub(crate) fn record(&self, transaction: &TransactionView) {
        self.cache.keep(Space::Transactions, &transaction.hash().into(), transaction.data().as_bytes());
    }

    /// The answer to a call that is never null.
    async fn call<T: DeserializeOwned>(
        &self,
        method: &'static str,
        parameters: Vec<Value>,
    ) -> Result<T, NodeError> {
        let answer = rpc::call(&self.transport, method, parameters).await?;
        answer.ok_or_else(|| self.transport.senseless(method, "null"))
    }

    /// Objects by hash from the cache, each once, and the hashes of the others.
    fn cached<T>(
        &self,
        space: Space,
        hashes: &[H256],
        read: impl Fn(&H256, &Bytes) -> Option<T>,
    ) -> (HashMap<H256, T>, Vec<H256>) {
        let (mut all, mut missing) = (HashMap::new(), Vec::new());
        for hash in unique(hashes) {
            match self.cache.look_up(space, &hash, |bytes| read(&hash, bytes)) {
                Some(found) => drop(all.insert(hash, found)),
                None => missing.push(hash),
            }
        }
        (all, missing)
    }

    /// The number of its last block.
    ///
    /// # Errors
    /// The node is unavailable.
    pub async fn tip(&self) -> Result<u64, NodeError> {
        let number: ckb_jsonrpc_types::BlockNumber = self.call("get_tip_block_number", Vec::new()).await?;
        Ok(number.value())
    }

    /// The header of its last block.
    ///
    /// # Errors
    /// The node is unavailable, or returns something else.
    pub async fn tip_header(&self) -> Result<HeaderView, NodeError> {
        let method = "get_tip_header";
        let form: Form<HeaderShape> = self.call(method, vec![json!("0x0")]).await?;
        check::header(form).map_err(|detail| self.transport.senseless(method, detail))
    }

    /// The rules of its chain.
    ///
    /// # Errors
    /// The node is unavailable.
    pub async fn rules(&self) -> Result<ChainRules, NodeError> {
        let answer: ConsensusAnswer = self.call("get_consensus", Vec::new()).await?;
        let epoch = |rfc: &str| {
            let fork = answer.hardfork_features.iter().find(|fork| fork.rfc == rfc);
            fork.and_then(|fork| fork.epoch_number).map(|epoch| epoch.value())
        };
        Ok(ChainRules { vm_1_epoch: epoch("0032"), vm_2_epoch: epoch("0049"), chain: answer.id })
    }

    /// A transaction with its state and cycles.
    ///
    /// # Errors
    /// The node is unavailable, does not know it, or returns another one.
    pub async fn transaction(&self, hash: &H256) -> Result<FoundTransaction, NodeError> {
        let request = NodeRequest::new("get_transaction", format!("{hash:#x}"));
        let parameters = vec![json!(request.of), json!("0x0")];
        let answer: Option<TransactionAnswer> =
            rpc::call(&self.transport, request.method, parameters).await?;
        self.found(hash, answer)
    }

    fn found(&self, hash: &H256, answer: Option<TransactionAnswer>) -> Result<FoundTransaction, NodeError> {
        let request = NodeRequest::new("get_transaction", format!("{hash:#x}"));
        let Some(answer) = answer else { return Err(self.unknown(request, String::new())) };
        let TransactionAnswer { transaction, cycles, tx_status } = answer;
        let Some(form) = transaction else {
            let reason = tx_status.reason.map(|it| format!(": {it}")).unwrap_or_default();
            let status = serde_json::to_value(&tx_status.status).unwrap_or_default();
            let why = format!(" ({}{reason})", status.as_str().unwrap_or_default());
            return Err(self.unknown(request, why.chars().take(limits::MESSAGE_CHARS_MAX).collect()));
        };
        let checked =
            check::transaction(form).and_then(|it| check::same("transaction", hash, &it.hash()).map(|()| it));
        let transaction = checked.map_err(|detail| self.lie(request.clone(), detail))?;
        self.record(&transaction);
        let state = self.state(&request, tx_status)?;
        Ok(FoundTransaction { transaction, state, cycles: cycles.map(|cycles| cycles.value()) })
    }

    fn state(&self, request: &NodeRequest, status: StatusShape) -> Result<TransactionState, NodeError> {
        use ckb_jsonrpc_types::Status;
        match (status.status, status.block_hash) {
            (Status::Committed, Some(block_hash)) => {
                let number = status.block_number.map(|number| number.value());
                Ok(TransactionState::Committed(BlockPosition { block_hash, number }))
            }
            (Status::Pending | Status::Proposed, _) => Ok(TransactionState::InPool),
            (Status::Committed, None) => {
                Err(self.transport.senseless("get_transaction", "committed, but in no block"))
            }
            (Status::Unknown | Status::Rejected, _) => {
                Err(self.unknown(request.clone(), " any more".to_owned()))
            }
        }
    }

    /// Transactions by hash, each once. Does not request cached ones, because they never change.
    ///
    /// # Errors
    /// The node is unavailable, does not know one, or returns another one.
    pub async fn transactions(&self, hashes: &[H256]) -> Result<HashMap<H256, TransactionView>, NodeError> {
        let (mut all, missing) = self.cached(Space::Transactions, hashes, |hash, bytes| {
            let found = packed::Transaction::from_slice(bytes).ok()?;
            check::sound(&found).ok()?;
            let view = found.into_view();
            check::same("transaction", hash, &view.hash()).ok().map(|()| view)
        });
        let calls = Calls { method: "get_transaction", parameters: each(&missing, "0x0") };
        let take = |number: usize, answer: Option<TransactionAnswer>| {
            self.found(&missing[number], answer).map(|found| found.transaction)
        };
        let found = rpc::batch(&self.transport, &calls, take).await?;
        all.extend(missing.iter().cloned().zip(found));
        Ok(all)
    }

    /// The blocks of transactions, unverified; omits transactions that are not in a block.
    ///
    /// # Errors
    /// The node is unavailable, or does not know one of them.
    pub async fn positions(&self, hashes: &[H256]) -> Result<HashMap<H256, BlockPosition>, NodeError> {
        let hashes = unique(hashes);
        let calls = Calls { method: "get_transaction", parameters: each(&hashes, "0x1") };
        let take = |number: usize, answer: Option<TransactionAnswer>| {
            let request = NodeRequest::new("get_transaction", format!("{:#x}", hashes[number]));
            let Some(answer) = answer else { return Err(self.unknown(request, String::new())) };
            Ok(match self.state(&request, answer.tx_status)? {
                TransactionState::Committed(place) => Some(place),
                TransactionState::InPool => None,
            })
        };
        let positions = rpc::batch(&self.transport, &calls, take).await?;
        let placed = hashes.iter().cloned().zip(positions);
        Ok(placed.filter_map(|(hash, place)| Some((hash, place?))).collect())
    }

    /// Headers by block hash, in the order of `hashes`.
    ///
    /// # Errors
    /// The node is unavailable, does not know one, or returns another one.
    pub async fn headers(&self, hashes: &[H256]) -> Result<Vec<HeaderView>, NodeError> {
        let (mut all, missing) = self.cached(Space::Headers, hashes, |hash, bytes| {
            let view = packed::Header::from_slice(bytes).ok()?.into_view();
            check::same("header", hash, &view.hash()).ok().map(|()| view)
        });
        let calls = Calls { method: "get_header", parameters: each(&missing, "0x0") };
        let take = |number: usize, answer: Option<Form<HeaderShape>>| {
            let hash = &missing[number];
            let request = NodeRequest::new("get_header", format!("{hash:#x}"));
            let Some(form) = answer else { return Err(self.unknown(request, String::new())) };
            let checked =
                check::header(form).and_then(|it| check::same("header", hash, &it.hash()).map(|()| it));
            let header = checked.map_err(|detail| self.lie(request, detail))?;
            self.cache.keep(Space::Headers, hash, header.data().as_bytes());
            Ok(header)
        };
        let found = rpc::batch(&self.transport, &calls, take).await?;
        all.extend(missing.iter().cloned().zip(found));
        Ok(hashes.iter().filter_map(|hash| all.get(hash).cloned()).collect())
    }

    /// Indices of the cells that are spent or unknown according to the node.
    ///
    /// # Errors
    /// The node is unavailable.
    pub async fn not_live(&self, positions: &[OutPoint]) -> Result<Vec<usize>, NodeError> {
        let named = positions.iter().map(|place| json!(ckb_jsonrpc_types::OutPoint::from(place.clone())));
        let parameters = named.map(|place| vec![place, json!(false)]).collect();
        let calls = Calls { method: "get_live_cell", parameters };
        let is_live =
            |_: usize, answer: Option<LiveCellAnswer>| Ok(answer.is_some_and(|cell| cell.status == "live"));
        let live = rpc::batch(&self.transport, &calls, is_live).await?;
        Ok(live.iter().enumerate().filter(|(_, is_live)| !**is_live).map(|(number, _)| number).collect())
    }
}

/// Each hash once, in order.
fn unique(hashes: &[H256]) -> Vec<H256> {
    let mut seen = HashSet::new();
    hashes.iter().filter(|hash| seen.insert(*hash)).cloned().collect()
}

/// Parameters of a call for each of these hashes.
fn each(hashes: &[H256], verbosity: &str) -> Vec<Vec<Value>> {
    hashes.iter().map(|hash| vec![json!(format!("{hash:#x}")), json!(verbosity)]).collect()
}
