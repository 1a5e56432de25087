//! Blocks whose content matches their headers.

use ckb_types::{
    H256,
    core::{BlockView, HeaderView},
    packed::Bytes as PackedBytes,
    prelude::*,
};
use serde_json::json;

use crate::{
    cache::Space,
    check,
    error::{NodeError, NodeRequest},
    node::ChainNode,
    rpc,
    shapes::BlockAnswer,
};

/// A block whose transactions, witnesses, proposals, uncles and extension match its header.
#[derive(Clone, Debug)]
pub struct CheckedBlock {
    /// The block, with a computed hash.
    pub view: BlockView,
    /// Cycles of its transactions except the first, if the node knows them.
    pub cycles: Option<Vec<u64>>,
}

impl ChainNode {
    /// The block with this number in the node's chain; `None` if the chain is shorter.
    ///
    /// # Errors
    /// The node is unavailable, or returns anything but a block with this number.
    pub async fn block_at(&self, number: u64) -> Result<Option<CheckedBlock>, NodeError> {
        let request = NodeRequest::new("get_block_by_number", format!("{number:#x}"));
        let Some(block) = self.get_block(&request).await? else { return Ok(None) };
        match block.view.number() == number {
            true => Ok(Some(block)),
            false => Err(self.lie(request, format!("it is block {}", block.view.number()))),
        }
    }

    /// The block with this hash; `None` if the node does not know it.
    ///
    /// # Errors
    /// The node is unavailable, or returns anything but this block.
    pub async fn block(&self, hash: &H256) -> Result<Option<CheckedBlock>, NodeError> {
        let request = NodeRequest::new("get_block", format!("{hash:#x}"));
        let Some(block) = self.get_block(&request).await? else { return Ok(None) };
        check::same("block", hash, &block.view.hash()).map_err(|detail| self.lie(request, detail))?;
        Ok(Some(block))
    }

    async fn get_block(&self, request: &NodeRequest) -> Result<Option<CheckedBlock>, NodeError> {
        // As molecule, with cycles.
        let parameters = vec![json!(request.of), json!("0x0"), json!(true)];
        let answer: Option<BlockAnswer> = rpc::call(self.transport(), request.method, parameters).await?;
        let Some(answer) = answer else { return Ok(None) };
        let view = check::block(answer.block).map_err(|detail| self.lie(request.clone(), detail))?;
        let cycles: Option<Vec<u64>> =
            answer.cycles.map(|cycles| cycles.into_iter().map(|it| it.value()).collect());
        let scripts = view.transactions().len().saturating_sub(1);
        if let Some(found) = cycles.as_ref().filter(|cycles| cycles.len() != scripts) {
            let detail = format!("it has cycles of {} transactions, not of {scripts}", found.len());
            return Err(self.lie(request.clone(), detail));
        }
        for transaction in view.transactions() {
            self.record(&transaction);
        }
        Ok(Some(CheckedBlock { view, cycles }))
    }

    /// The extension of the block with this header, if it has one.
    ///
    /// # Errors
    /// The node is unavailable, does not know the block, or returns another one.
    pub async fn extension(&self, header: &HeaderView) -> Result<Option<Vec<u8>>, NodeError> {
        // There are neither uncles nor an extension.
        if header.extra_hash().as_slice() == [0; 32] {
            return Ok(None);
        }
        let hash: H256 = header.hash().into();
        let taken = |bytes: &bytes::Bytes| unpack_extension(header, bytes);
        if let Some(found) = self.cache().look_up(Space::Extensions, &hash, taken) {
            return Ok(found);
        }
        let request = NodeRequest::new("get_block", format!("{hash:#x}"));
        let Some(block) = self.block(&hash).await? else { return Err(self.unknown(request, String::new())) };
        let extension = block.view.extension().map(|bytes| bytes.raw_data().to_vec());
        let mut packed = block.view.calc_uncles_hash().as_slice().to_vec();
        if let Some(bytes) = &extension {
            packed.push(1);
            packed.extend(bytes);
        }
        self.cache().keep(Space::Extensions, &hash, packed.into());
        Ok(extension)
    }
}

/// Splits a stored extension from the hash of the uncles before it; `None` if they do not match the header.
#[allow(clippy::option_option, reason = "whether it is known, and whether there is one")]
fn unpack_extension(header: &HeaderView, bytes: &[u8]) -> Option<Option<Vec<u8>>> {
    let (uncles, rest) = bytes.split_first_chunk::<32>()?;
    let uncles_hash = (*uncles).into();
    let extension = match rest.split_first() {
        None => None,
        Some((1, extension)) => Some(extension.to_vec()),
        Some(_) => return None,
    };
    let hash = extension.as_ref().map(|bytes| PackedBytes::from(bytes.clone()).calc_raw_data_hash());
    let extra = ckb_types::core::ExtraHashView::new(uncles_hash, hash).extra_hash();
    (extra == header.extra_hash()).then_some(extension)
}
