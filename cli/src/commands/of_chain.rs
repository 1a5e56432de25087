//! Transactions of a CKB node's chain, or that use its cells, with all data that their scripts may read.

use std::path::Path;

use antares_node::{
    BareError, BareFormat, BareTransaction, ChainNode, ChainRules, NodeError, NodeOptions, ResolveError,
    Resolved,
};
use antares_transaction::{Environment, worded};
use anyhow::{Context as _, anyhow};
use ckb_types::{H256, core::HeaderView, prelude::*};

use crate::{
    args::of_chain::{NodeArgs, OfChainArgs},
    failure::Failure,
    input, output,
    output::progress,
    remote::calls::runtime,
};

/// Data fetched from a node.
pub(crate) struct Taken {
    /// The transaction with its cells.
    pub resolved: Resolved,
    /// The rules of the chain in the epoch of its block, or of the tip.
    pub environment: Environment,
    /// Whether the chain is the main network.
    pub is_mainnet: bool,
    /// Cycles that the node reports.
    pub cycles: Option<u64>,
    /// Inputs of a transaction outside any block whose cells the node reports as spent or unknown.
    pub not_live: Vec<usize>,
}

/// The selected node.
pub(crate) fn node(args: &NodeArgs) -> Result<ChainNode, Failure> {
    let options = NodeOptions { folder: args.rpc_cache.clone(), ..NodeOptions::default() };
    ChainNode::new(&args.rpc, options).map_err(failure)
}

/// The transaction that `antares verify` names by hash, or its file if that lacks cells.
pub(crate) fn named(args: &OfChainArgs, file: Option<&[u8]>) -> Result<Option<Taken>, Failure> {
    let Some(rpc) = args.rpc.clone() else { return Ok(None) };
    let node = node(&NodeArgs { rpc, rpc_cache: args.rpc_cache.clone() })?;
    match (&args.tx_hash, file) {
        (Some(hash), _) => by_hash(&node, hash).map(Some),
        (None, Some(file)) => match read(file, args.format) {
            Err(BareError::Mock) if args.format.is_none() => Ok(None),
            bare => of_file(&node, bare).map(Some),
        },
        (None, None) => Ok(None),
    }
}

/// `file` in molecule if it is a transaction without its cells, which a server's node may have. Unrecognised
/// input is treated as a transaction with cells, whose reader reports the error.
pub(crate) fn bare(
    file: &[u8],
    format: Option<BareFormat>,
    has_server: bool,
) -> Result<Option<Vec<u8>>, Failure> {
    match read(file, format) {
        Ok(BareTransaction(transaction)) if has_server => Ok(Some(transaction.data().as_slice().to_vec())),
        Ok(_) => Err(Failure::Usage(anyhow!(
            "the transaction comes without its cells: name a node with --rpc, or with --server a server that has \
             one"
        ))),
        // Only a transaction without its cells has a declared format.
        Err(BareError::Foreign | BareError::Mock | BareError::Syntax { .. } | BareError::TooLong(_))
            if format.is_none() =>
        {
            Ok(None)
        }
        Err(error) => Err(error).context("the transaction cannot be used").map_err(Failure::Usage),
    }
}

fn read(file: &[u8], format: Option<BareFormat>) -> Result<BareTransaction, BareError> {
    let read = BareTransaction::read(file, format.unwrap_or(BareFormat::Node));
    read.map_err(|error| match error {
        BareError::Shape { path, detail }
            if detail.starts_with("invalid") || detail.starts_with("missing") =>
        {
            BareError::Shape { path, detail: worded(&detail) }
        }
        error => error,
    })
}

/// A transaction of the chain.
pub(crate) fn by_hash(node: &ChainNode, hash: &H256) -> Result<Taken, Failure> {
    let work = async {
        let whole = node.whole(hash).await.map_err(failure)?;
        let resolved = node.resolve(&whole.transaction).await.map_err(unresolved)?;
        let (environment, is_mainnet) = rules(node, whole.header).await?;
        let (cycles, not_live) = (whole.cycles, Vec::new());
        Ok(Taken { resolved, environment, is_mainnet, cycles, not_live })
    };
    wait_for_node(node, work)
}

/// A transaction that is in no block.
pub(crate) fn of_file(node: &ChainNode, bare: Result<BareTransaction, BareError>) -> Result<Taken, Failure> {
    let BareTransaction(transaction) =
        bare.context("the transaction cannot be used").map_err(Failure::Usage)?;
    let work = async {
        let resolved = node.resolve(&transaction).await.map_err(unresolved)?;
        let inputs: Vec<_> = transaction.input_pts_iter().collect();
        let not_live = node.not_live(&inputs).await.map_err(failure)?;
        let (environment, is_mainnet) = rules(node, None).await?;
        Ok(Taken { resolved, environment, is_mainnet, cycles: None, not_live })
    };
    wait_for_node(node, work)
}

/// Reads a transaction without its cells, `-` for standard input.
pub(crate) fn read_bare(
    path: &Path,
    format: Option<BareFormat>,
) -> Result<Result<BareTransaction, BareError>, Failure> {
    let bytes = input::read(path, antares_node::limits::BARE_BYTES_MAX as u64)?;
    Ok(read(&bytes, format))
}

/// The rules in the epoch of a block, or else of the tip, and whether they are the main network's.
async fn rules(node: &ChainNode, header: Option<HeaderView>) -> Result<(Environment, bool), Failure> {
    let rules = node.rules().await.map_err(failure)?;
    let header = match header {
        Some(header) => header,
        None => node.tip_header().await.map_err(failure)?,
    };
    Ok((environment(&rules, header.epoch().number()), rules.chain == "ckb"))
}

/// The rules of a chain in an epoch.
pub(crate) fn environment(rules: &ChainRules, epoch: u64) -> Environment {
    // A rule without a first epoch never takes effect.
    let first = |epoch: Option<u64>| epoch.unwrap_or(u64::MAX);
    Environment { vm_1_epoch: first(rules.vm_1_epoch), vm_2_epoch: first(rules.vm_2_epoch), epoch }
}

/// Waits for a node's response.
pub(crate) fn wait_for_node<T: Send>(
    node: &ChainNode,
    work: impl Future<Output = Result<T, Failure>> + Send,
) -> Result<T, Failure> {
    let message = format!("asking {}", output::printable(node.name()));
    progress::while_working(&message, || runtime()?.block_on(work))
}

/// Converts a node's failure.
pub(crate) fn failure(error: NodeError) -> Failure {
    match &error {
        NodeError::Address { .. } | NodeError::Unknown { .. } => Failure::Usage(error.into()),
        _ => Failure::Service(error.into()),
    }
}

/// Converts a failure to resolve a transaction's cells.
pub(crate) fn unresolved(error: ResolveError) -> Failure {
    match error {
        ResolveError::ChainNode(error) => failure(error),
        ResolveError::At { path, source } => failure(source).of(&path),
        error => Failure::Usage(anyhow!(error)),
    }
}
