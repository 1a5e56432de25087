//! Verifies the blocks that a node claims for transactions, by a proof up to the block's header.

use std::collections::HashMap;

use ckb_types::{
    H256,
    core::HeaderView,
    packed::Byte32,
    utilities::{MerkleProof, merkle_root},
};
use serde_json::json;

use crate::{
    error::{NodeError, NodeRequest},
    node::{BlockPosition, ChainNode},
    rpc::{self, Calls},
    shapes::ProofAnswer,
};

impl ChainNode {
    /// Requests and verifies proofs of the transactions' positions.
    ///
    /// # Errors
    /// The node is unavailable, or a proof is wrong.
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

/// Whether the proof connects the transaction with the header.
fn is_proof(hash: &H256, header: &HeaderView, answer: ProofAnswer) -> bool {
    let ProofAnswer { witnesses_root, proof } = answer;
    let indices = proof.indices.into_iter().map(|index| index.value()).collect();
    let lemmas: Vec<Byte32> = proof.lemmas.into_iter().map(|it| Byte32::new(it.0)).collect();
    let root = MerkleProof::new(indices, lemmas).root(&[Byte32::new(hash.0)]);
    let witnesses_root = Byte32::new(witnesses_root.0);
    root.is_some_and(|root| merkle_root(&[root, witnesses_root]) == header.transactions_root())
}
