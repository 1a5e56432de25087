//! A transaction with witnesses that its block covers.

use ckb_types::{
    H256,
    core::{HeaderView, TransactionView},
    prelude::*,
};

use crate::{
    error::{NodeError, NodeRequest},
    node::{ChainNode, TransactionState},
};

/// A complete transaction and its block.
#[derive(Clone, Debug)]
pub struct WholeTransaction {
    /// The transaction. If it is in a block, the block's header covers its witnesses.
    pub transaction: TransactionView,
    /// Header of its block; `None` in the pool, where nothing covers its witnesses.
    pub header: Option<HeaderView>,
    /// Its cycles, unverified.
    pub cycles: Option<u64>,
}

impl ChainNode {
    /// A transaction with its witnesses.
    ///
    /// # Errors
    /// The node is unavailable, does not know it, or returns something else.
    pub async fn whole(&self, hash: &H256) -> Result<WholeTransaction, NodeError> {
        let found = self.transaction(hash).await?;
        let TransactionState::Committed(place) = found.state else {
            let (transaction, cycles) = (found.transaction, found.cycles);
            return Ok(WholeTransaction { transaction, header: None, cycles });
        };
        let request = || NodeRequest::new("get_transaction", format!("{hash:#x}"));
        let Some(block) = self.block(&place.block_hash).await? else {
            return Err(self.unknown(request(), format!(", nor its block {:#x}", place.block_hash)));
        };
        let is_it = |it: &TransactionView| it.hash().as_slice() == hash.as_bytes();
        let Some(transaction) = block.view.transactions().into_iter().find(is_it) else {
            let detail = format!("it is not in block {:#x}, where it is said to be", place.block_hash);
            return Err(self.lie(request(), detail));
        };
        let header = Some(block.view.header());
        Ok(WholeTransaction { transaction, header, cycles: found.cycles })
    }
}
