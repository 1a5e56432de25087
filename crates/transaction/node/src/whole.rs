//! A transaction with witnesses that its block covers.

use std::collections::HashMap;

use ckb_types::{
    H256,
    core::{HeaderView, TransactionView},
    packed::Byte32,
    prelude::*,
    utilities::{MerkleProof, merkle_root},
};
use serde_json::json;

use crate::{
    error::{NodeError, NodeRequest},
    node::{BlockPosition, ChainNode, TransactionState},
    rpc::{self, Calls},
    shapes::ProofAnswer,
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

    /// Has the node prove that transactions are in the blocks that it says, each by a proof that leads to the
    /// block's header.
    ///
    /// # Errors
    /// The node cannot be asked, or a proof proves something else.
    pub(crate) async fn prove(&self, positions: &HashMap<H256, BlockPosition>) -> Result<(), NodeError> {
        let mut claims: Vec<(&H256, &BlockPosition)> = positions.iter().collect();
        claims.sort_by_key(|(hash, _)| *hash);
        let blocks: Vec<H256> = claims.iter().map(|(_, place)| place.block_hash.clone()).collect();
        let headers = self.headers(&blocks).await?;
        let parameter =
            |(hash, place): &(&H256, &BlockPosition)| vec![json!([hash]), json!(place.block_hash)];
        let calls =
            Calls { method: "get_transaction_proof", parameters: claims.iter().map(parameter).collect() };
        let check = |number: usize, answer: Option<ProofAnswer>| {
            let ((hash, place), header) = (claims[number], &headers[number]);
            let request = || NodeRequest::new("get_transaction", format!("{hash:#x}"));
            let Some(answer) = answer else {
                let why = format!(", or cannot prove that it is in block {:#x}", place.block_hash);
                return Err(self.unknown(request(), why));
            };
            if !is_proof(hash, header, answer) {
                let detail = format!("nothing proves that it is in block {:#x}", place.block_hash);
                return Err(self.lie(request(), detail));
            }
            Ok(())
        };
        rpc::batch(self.transport(), &calls, check).await.map(drop)
    }
}

/// Whether this leads from the transaction to the header.
fn is_proof(hash: &H256, header: &HeaderView, answer: ProofAnswer) -> bool {
    let ProofAnswer { witnesses_root, proof } = answer;
    let indices = proof.indices.into_iter().map(|index| index.value()).collect();
    let lemmas: Vec<Byte32> = proof.lemmas.into_iter().map(|it| Byte32::new(it.0)).collect();
    let root = MerkleProof::new(indices, lemmas).root(&[Byte32::new(hash.0)]);
    let witnesses_root = Byte32::new(witnesses_root.0);
    root.is_some_and(|root| merkle_root(&[root, witnesses_root]) == header.transactions_root())
}
