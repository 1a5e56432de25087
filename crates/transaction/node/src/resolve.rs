//! A transaction with all data that its scripts can access: the mock transaction for `antares verify` and
//! ckb-debugger.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use ckb_mock_tx_types::{MockCellDep, MockInfo, MockInput, MockTransaction, ReprMockTransaction};
use ckb_types::{
    H256,
    core::{DepType, HeaderView, TransactionView},
    packed::{Byte32, CellDep, CellOutput, OutPoint, OutPointVec},
    prelude::*,
};

use crate::{
    error::NodeError,
    limits::{BATCH_CALLS_MAX, CELL_BYTES_MAX, ENTRIES_MAX, GROUP_MEMBERS_MAX, SOURCE_BYTES_MAX},
    node::{BlockPosition, ChainNode},
};

/// Why a transaction's cells or headers are unavailable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// An error of the node that is not specific to an entry.
    #[error(transparent)]
    ChainNode(#[from] NodeError),
    /// An error of the node about an entry of the transaction.
    #[error("{path}: {source}")]
    At {
        /// Path of the entry: `tx.inputs[2].previous_output`.
        path: String,
        /// The node's error.
        source: NodeError,
    },
    /// The transaction does not have this output.
    #[error("{path}: the transaction {hash:#x} has {outputs} outputs, none with the index {index}")]
    NoSuchOutput {
        /// Path of the entry.
        path: String,
        /// The transaction.
        hash: H256,
        /// Number of its outputs.
        outputs: usize,
        /// The index.
        index: usize,
    },
    /// The data of a dep group is not a list of out points.
    #[error("{path}: the cell is no dep group: {detail}")]
    NoGroup {
        /// Path of the entry.
        path: String,
        /// The decoder's message.
        detail: String,
    },
    /// A limit is exceeded.
    #[error("{path}: {count} {what}, at most {count_max} are accepted")]
    TooMany {
        /// Path of the list.
        path: &'static str,
        /// What is counted.
        what: &'static str,
        /// Actual number.
        count: usize,
        /// Maximum number.
        count_max: usize,
    },
    /// The first transaction of a block.
    #[error("the transaction is the first of its block, which mints: no script of it runs")]
    Cellbase,
}

/// A transaction with its cells and headers.
#[derive(Clone)]
pub struct Resolved {
    /// The mock transaction.
    pub mock: MockTransaction,
}

impl Resolved {
    /// The result as ckb-debugger's JSON.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        let repr = ReprMockTransaction::from(self.mock.clone());
        // Cannot fail: there are no maps, and writing to memory does not fail.
        serde_json::to_vec(&repr).unwrap_or_default()
    }

    /// The same, formatted for people.
    #[must_use]
    pub fn to_json_pretty(&self) -> Vec<u8> {
        let repr = ReprMockTransaction::from(self.mock.clone());
        serde_json::to_vec_pretty(&repr).unwrap_or_default()
    }
}

/// An out point and its path.
#[derive(Clone)]
struct Named {
    path: String,
    place: OutPoint,
}

impl Named {
    fn hash(&self) -> H256 {
        self.place.tx_hash().into()
    }
}

/// The transactions whose cells are used, and their positions.
#[derive(Default)]
struct Sources {
    transactions: HashMap<H256, TransactionView>,
    positions: HashMap<H256, BlockPosition>,
    bytes: usize,
    /// Total bytes of the transactions.
    transaction_bytes: usize,
}

impl ChainNode {
    /// Fetches all cells, headers and extensions that the scripts of `transaction` can access.
    ///
    /// # Errors
    /// The node is unavailable, lacks an entry, or returns wrong data; or a limit is exceeded.
    pub async fn resolve(&self, transaction: &TransactionView) -> Result<Resolved, ResolveError> {
        self.resolve_with(transaction, true).await
    }

    /// Like [`ChainNode::resolve`], but omits the blocks of cells if the transaction names no header, since
    /// scripts cannot query them then.
    ///
    /// # Errors
    /// Those of [`ChainNode::resolve`].
    pub async fn resolve_for_scripts(&self, transaction: &TransactionView) -> Result<Resolved, ResolveError> {
        self.resolve_with(transaction, !transaction.header_deps().is_empty()).await
    }

    async fn resolve_with(
        &self,
        transaction: &TransactionView,
        is_placed: bool,
    ) -> Result<Resolved, ResolveError> {
        if transaction.is_cellbase() {
            return Err(ResolveError::Cellbase);
        }
        let (inputs, deps) = (transaction.inputs(), transaction.cell_deps());
        at_most("tx.inputs", "entries", inputs.len(), ENTRIES_MAX)?;
        at_most("tx.cell_deps", "entries", deps.len(), ENTRIES_MAX)?;
        at_most("tx.header_deps", "entries", transaction.header_deps().len(), ENTRIES_MAX)?;
        let spent = inputs.clone().into_iter().enumerate().map(|(index, input)| {
            let path = format!("tx.inputs[{index}].previous_output");
            Named { path, place: input.previous_output() }
        });
        let used = deps.clone().into_iter().enumerate().map(|(index, dep)| {
            let path = format!("tx.cell_deps[{index}].out_point");
            Named { path, place: dep.out_point() }
        });
        let (spent, used): (Vec<Named>, Vec<Named>) = (spent.collect(), used.collect());
        let mut sources = Sources::default();
        self.fetch(&mut sources, spent.iter().chain(&used)).await?;
        let members = self.members(&mut sources, &deps.into_iter().collect::<Vec<_>>(), &used).await?;
        if is_placed {
            let all: Vec<H256> = sources.transactions.keys().cloned().collect();
            sources.positions = self.positions(&all).await?;
        }
        let headers = self.named_headers(transaction, &sources).await?;
        let mut info = MockInfo { header_deps: headers, ..MockInfo::default() };
        for header in &info.header_deps {
            if let Some(extension) = self.extension(header).await? {
                info.extensions.push((header.hash(), extension.into()));
            }
        }
        for (input, named) in inputs.into_iter().zip(&spent) {
            let (output, data) = sources.cell(named)?;
            info.inputs.push(MockInput { input, output, data, header: sources.block(named) });
        }
        for (cell_dep, named) in members {
            let (output, data) = sources.cell(&named)?;
            info.cell_deps.push(MockCellDep { cell_dep, output, data, header: sources.block(&named) });
        }
        Ok(Resolved { mock: MockTransaction { mock_info: info, tx: transaction.data() } })
    }

    /// Fetches the transactions that created these cells.
    async fn fetch(
        &self,
        sources: &mut Sources,
        named: impl Iterator<Item = &Named> + Clone,
    ) -> Result<(), ResolveError> {
        let missing = named.clone().map(Named::hash).filter(|hash| !sources.transactions.contains_key(hash));
        let mut seen = HashSet::new();
        let missing: Vec<H256> = missing.filter(|hash| seen.insert(hash.clone())).collect();
        for part in missing.chunks(BATCH_CALLS_MAX) {
            let found = self.transactions(part).await.map_err(|source| {
                let of = subject_of(&source);
                let first = named.clone().find(|named| Some(format!("{:#x}", named.hash())) == of);
                at(first.map(|named| named.path.clone()), source)
            })?;
            sources.add(found)?;
        }
        Ok(())
    }

    /// All cell deps and the members of their dep groups, each once.
    async fn members(
        &self,
        sources: &mut Sources,
        deps: &[CellDep],
        used: &[Named],
    ) -> Result<Vec<(CellDep, Named)>, ResolveError> {
        let mut all = Vec::new();
        for (dep, named) in deps.iter().zip(used) {
            all.push((dep.clone(), named.clone()));
            if dep.dep_type() != DepType::DepGroup.into() {
                continue;
            }
            let (_, data) = sources.cell(named)?;
            let positions = OutPointVec::from_slice(&data).map_err(|error| ResolveError::NoGroup {
                path: named.path.clone(),
                detail: error.to_string(),
            })?;
            let what = "cells with the members of dep groups";
            at_most("tx.cell_deps", what, all.len() + positions.len(), GROUP_MEMBERS_MAX)?;
            for (position, place) in positions.into_iter().enumerate() {
                let code = CellDep::new_builder().out_point(place.clone()).dep_type(DepType::Code).build();
                let path = format!("{} (dep group, member {position})", named.path);
                all.push((code, Named { path, place }));
            }
        }
        self.fetch(sources, all.iter().map(|(_, named)| named)).await?;
        let mut seen = HashSet::new();
        all.retain(|(dep, _)| seen.insert(dep.as_slice().to_vec()));
        Ok(all)
    }

    /// The headers that the transaction names. With these, scripts can query which block created a cell, so the
    /// node must prove that block.
    async fn named_headers(
        &self,
        transaction: &TransactionView,
        sources: &Sources,
    ) -> Result<Vec<HeaderView>, ResolveError> {
        let named: Vec<H256> = transaction.header_deps_iter().map(|hash| hash.into()).collect();
        let headers = self.headers(&named).await.map_err(|source| {
            let of = subject_of(&source);
            let index = named.iter().position(|hash| Some(format!("{hash:#x}")) == of);
            at(index.map(|index| format!("tx.header_deps[{index}]")), source)
        })?;
        if !named.is_empty() {
            self.prove(&sources.positions).await?;
        }
        Ok(headers)
    }
}

impl Sources {
    fn add(&mut self, found: HashMap<H256, TransactionView>) -> Result<(), ResolveError> {
        let bytes = found.values().map(|transaction| transaction.data().total_size()).sum::<usize>();
        self.transaction_bytes += bytes;
        let what = "bytes of transactions that made its cells";
        at_most("tx", what, self.transaction_bytes, SOURCE_BYTES_MAX)?;
        self.transactions.extend(found);
        Ok(())
    }

    /// Returns the cell, and counts its data.
    fn cell(&mut self, named: &Named) -> Result<(CellOutput, Bytes), ResolveError> {
        let (hash, index) = (named.hash(), u32::from(named.place.index()) as usize);
        let transaction = self.transactions.get(&hash);
        let found = transaction.and_then(|transaction| transaction.output_with_data(index));
        let (output, data) = found.ok_or_else(|| ResolveError::NoSuchOutput {
            path: named.path.clone(),
            outputs: transaction.map_or(0, |transaction| transaction.outputs().len()),
            hash,
            index,
        })?;
        self.bytes += data.len();
        at_most("tx", "bytes of data in all cells", self.bytes, CELL_BYTES_MAX)?;
        Ok((output, data))
    }

    /// The block that created the cell.
    fn block(&self, named: &Named) -> Option<Byte32> {
        self.positions.get(&named.hash()).map(|place| Byte32::new(place.block_hash.0))
    }
}

fn at_most(
    path: &'static str,
    what: &'static str,
    count: usize,
    count_max: usize,
) -> Result<(), ResolveError> {
    match count > count_max {
        true => Err(ResolveError::TooMany { path, what, count, count_max }),
        false => Ok(()),
    }
}

/// The subject of an error.
fn subject_of(error: &NodeError) -> Option<String> {
    match error {
        NodeError::Refused { request, .. }
        | NodeError::Unknown { request, .. }
        | NodeError::Lie { request, .. } => Some(request.of.clone()),
        _ => None,
    }
}

fn at(path: Option<String>, source: NodeError) -> ResolveError {
    match path {
        Some(path) => ResolveError::At { path, source },
        None => ResolveError::ChainNode(source),
    }
}
