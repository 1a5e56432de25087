//! A block of the chain with all data that its scripts may read.

use std::time::{Duration, Instant};

use antares_node::{ChainNode, CheckedBlock, NodeError, ResolveError};
use anyhow::anyhow;
use ckb_types::{H256, core::TransactionView};

use crate::{commands::of_chain, failure::Failure, limits::UNSETTLED_MAX};

pub(super) struct Fetched {
    pub(super) number: u64,
    pub(super) hash: H256,
    pub(super) parent: H256,
    pub(super) epoch: u64,
    /// Transactions whose scripts run: all but the cellbase; none of the genesis block.
    pub(super) transactions: Vec<Prepared>,
    pub(super) took: Duration,
}

/// A transaction, ready for verification.
pub(super) struct Prepared {
    pub(super) hash: H256,
    /// Index in its block.
    pub(super) index: usize,
    /// Cycles that the node reports.
    pub(super) cycles: Option<u64>,
    pub(super) json: Vec<u8>,
}

/// Fetches a block and the transactions that it uses. Retries if the chain reorganises in the process.
pub(super) async fn fetch(node: ChainNode, number: u64) -> Result<Fetched, Failure> {
    let begun = Instant::now();
    let mut block = block_at(&node, number).await?;
    for _ in 0..UNSETTLED_MAX {
        let failure = match prepared(&node, number, &block).await {
            Ok(transactions) => {
                let header = block.view.header();
                return Ok(Fetched {
                    number,
                    hash: header.hash().into(),
                    parent: header.parent_hash().into(),
                    epoch: header.epoch().number(),
                    transactions,
                    took: begun.elapsed(),
                });
            }
            Err(failure) => failure,
        };
        let again = block_at(&node, number).await?;
        if again.view.hash() == block.view.hash() {
            return Err(failure);
        }
        block = again;
    }
    Err(Failure::Service(anyhow!("block {number} changes each time it is asked for")))
}

async fn block_at(node: &ChainNode, number: u64) -> Result<CheckedBlock, Failure> {
    let block = node.block_at(number).await.map_err(of_chain::failure)?;
    block.ok_or_else(|| Failure::Service(anyhow!("{} has no block {number} any more", node.name())))
}

async fn prepared(node: &ChainNode, number: u64, block: &CheckedBlock) -> Result<Vec<Prepared>, Failure> {
    // Nodes do not verify the first block.
    if number == 0 {
        return Ok(Vec::new());
    }
    let transactions = block.view.transactions();
    let scripts = transactions.iter().enumerate().skip(1);
    let used: Vec<H256> = scripts.clone().flat_map(|(_, it)| sources(it)).collect();
    // Prefetches all at once. Whatever fails here fails again below, where the error has context.
    let _ = node.transactions(&used).await;
    let mut all = Vec::with_capacity(transactions.len());
    for (index, transaction) in scripts {
        let hash: H256 = transaction.hash().into();
        let resolved = node
            .resolve_for_scripts(transaction)
            .await
            .map_err(|error| lost(error).of(&format!("block {number}, transaction {index} ({hash:#x})")))?;
        let cycles = block.cycles.as_ref().and_then(|cycles| cycles.get(index - 1).copied());
        all.push(Prepared { hash, index, cycles, json: resolved.to_json() });
    }
    Ok(all)
}

/// The node has all transactions of a block: an unknown one is the node's failure.
fn lost(error: ResolveError) -> Failure {
    match error {
        ResolveError::ChainNode(error @ NodeError::Unknown { .. }) => Failure::Service(error.into()),
        ResolveError::At { path, source: source @ NodeError::Unknown { .. } } => {
            Failure::Service(anyhow::Error::from(source).context(path))
        }
        error => of_chain::unresolved(error),
    }
}

/// The transactions whose cells it uses.
fn sources(transaction: &TransactionView) -> impl Iterator<Item = H256> {
    let deps = transaction.cell_deps_iter().map(|dep| dep.out_point().tx_hash().into());
    let inputs = transaction.input_pts_iter().map(|point| point.tx_hash().into());
    inputs.chain(deps).collect::<Vec<H256>>().into_iter()
}
