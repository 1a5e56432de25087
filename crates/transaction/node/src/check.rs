//! Checks that a node's data matches its hash and can be parsed safely.

use ckb_types::{
    H256,
    core::{BlockView, DepType, HeaderView, ScriptHashType, TransactionView},
    packed::{self, Byte32, Transaction},
    prelude::*,
};

use crate::{
    error::hex,
    shapes::{BlockShape, Form, HeaderShape, TransactionShape},
};

/// A transaction from either form.
pub(crate) fn transaction(form: Form<TransactionShape>) -> Result<TransactionView, String> {
    let transaction = match form {
        Form::Hex(bytes) => {
            Transaction::from_slice(bytes.as_bytes()).map_err(|error| format!("no transaction: {error}"))?
        }
        Form::Json(shape) => shape.0.into(),
    };
    sound(&transaction)?;
    Ok(transaction.into_view())
}

/// Rejects values that ckb's types cannot represent, and mismatched lists.
pub(crate) fn sound(transaction: &Transaction) -> Result<(), String> {
    let raw = transaction.raw();
    if raw.outputs().len() != raw.outputs_data().len() {
        return Err("it has other numbers of outputs and of data".to_owned());
    }
    let has_type = |script: packed::Script| ScriptHashType::try_from(script.hash_type()).is_ok();
    for (index, output) in raw.outputs().into_iter().enumerate() {
        if !has_type(output.lock()) || !output.type_().to_opt().is_none_or(has_type) {
            return Err(format!("outputs[{index}] has a script with an unknown hash type"));
        }
    }
    for (index, dep) in raw.cell_deps().into_iter().enumerate() {
        if DepType::try_from(dep.dep_type()).is_err() {
            return Err(format!("cell_deps[{index}] has an unknown dep type"));
        }
    }
    Ok(())
}

/// A header from either form.
pub(crate) fn header(form: Form<HeaderShape>) -> Result<HeaderView, String> {
    let header = match form {
        Form::Hex(bytes) => {
            packed::Header::from_slice(bytes.as_bytes()).map_err(|error| format!("no header: {error}"))?
        }
        Form::Json(shape) => shape.0.into(),
    };
    Ok(header.into_view())
}

/// A block from either form, whose content matches its header.
pub(crate) fn block(form: Form<BlockShape>) -> Result<BlockView, String> {
    let block = match form {
        Form::Hex(bytes) => packed_block(bytes.as_bytes())?,
        Form::Json(shape) => (*shape).into(),
    };
    for (index, transaction) in block.transactions().into_iter().enumerate() {
        sound(&transaction).map_err(|problem| format!("transactions[{index}]: {problem}"))?;
    }
    // The other conversion recomputes the roots.
    let view = block.into_view_without_reset_header();
    for (name, said, found) in [
        ("transactions_root", view.transactions_root(), view.calc_transactions_root()),
        ("proposals_hash", view.header().proposals_hash(), view.calc_proposals_hash()),
        ("extra_hash", view.header().extra_hash(), view.calc_extra_hash().extra_hash()),
    ] {
        if said != found {
            return Err(format!(
                "its header has the {name} {}, but what is in it {}",
                hex(&said),
                hex(&found)
            ));
        }
    }
    Ok(view)
}

/// A block with or without an extension.
fn packed_block(bytes: &[u8]) -> Result<packed::Block, String> {
    if let Ok(block) = packed::Block::from_slice(bytes) {
        return Ok(block);
    }
    let block = packed::BlockV1::from_slice(bytes).map_err(|error| format!("no block: {error}"))?;
    Ok(block.as_v0())
}

/// Checks that an object has the requested hash.
pub(crate) fn same(what: &str, wanted: &H256, found: &Byte32) -> Result<(), String> {
    match wanted.as_bytes() == found.as_slice() {
        true => Ok(()),
        false => Err(format!("it is a {what} with the hash {}", hex(found))),
    }
}
