//! Methods of a node's JSON-RPC, compatible with ckb.

use ckb_jsonrpc_types as json;
use ckb_types::{
    H256,
    core::BlockView,
    packed::{self, Byte32},
    prelude::*,
    utilities::{CBMT, merkle_root},
};
use serde_json::{Value, json};

use crate::Chain;

/// The result, or code and message of an error.
pub(crate) fn answer(chain: &Chain, method: &str, params: &Value) -> Result<Value, (i64, String)> {
    let text = |index: usize| params[index].as_str().unwrap_or_default();
    let hash = |index: usize| -> H256 { text(index).trim_start_matches("0x").parse().unwrap_or_default() };
    let number = |index: usize| u64::from_str_radix(text(index).trim_start_matches("0x"), 16);
    let by_hash = || chain.blocks().iter().find(|it| it.hash().as_slice() == hash(0).as_bytes());
    let shown = |it: &BlockView| block(chain, it, number(1) == Ok(0), params[2] == json!(true));
    match method {
        "get_tip_block_number" => Ok(json!(format!("{:#x}", chain.tip()))),
        "get_tip_header" => {
            Ok(chain.blocks().last().map_or(Value::Null, |it| header(it, number(0) == Ok(0))))
        }
        "get_consensus" => Ok(consensus(chain)),
        "get_header" => Ok(by_hash().map_or(Value::Null, |it| header(it, number(1) == Ok(0)))),
        "get_block" => Ok(by_hash().map_or(Value::Null, shown)),
        "get_block_by_number" => {
            Ok(number(0).ok().and_then(|number| chain.block(number)).map_or(Value::Null, shown))
        }
        "get_transaction" => Ok(transaction(chain, &hash(0), number(1).unwrap_or(2))),
        "get_live_cell" => Ok(live_cell(chain, &params[0])),
        "get_transaction_proof" => proof(chain, &params[0], &hash(1)),
        _ => Err((-32601, "Method not found".to_owned())),
    }
}

fn hex(bytes: &[u8]) -> Value {
    json!(json::JsonBytes::from_vec(bytes.to_vec()))
}

fn header(block: &BlockView, is_packed: bool) -> Value {
    match is_packed {
        true => hex(block.header().data().as_slice()),
        false => json!(json::HeaderView::from(block.header())),
    }
}

fn block(chain: &Chain, block: &BlockView, is_packed: bool, has_cycles: bool) -> Value {
    let reported = match is_packed {
        true => hex(block.data().as_slice()),
        false => json!(json::BlockView::from(block.clone())),
    };
    if !has_cycles {
        return reported;
    }
    let cycles = block.transactions().into_iter().skip(1).map(|it| {
        let hash: H256 = it.hash().into();
        json!(format!("{:#x}", chain.cycles.get(&hash).copied().unwrap_or(0)))
    });
    json!({ "block": reported, "cycles": cycles.collect::<Vec<_>>() })
}

fn transaction(chain: &Chain, hash: &H256, verbosity: u64) -> Value {
    let outside = |status: &str| json!({ "status": status, "block_number": null, "block_hash": null, "tx_index": null, "reason": null });
    let answer = |content: Value, cycles: Option<String>, status: Value| {
        json!({ "transaction": content, "cycles": cycles, "time_added_to_pool": null, "fee": null,
                "min_replace_fee": null, "tx_status": status })
    };
    let Some((found, place)) = chain.find(hash) else {
        return answer(Value::Null, None, outside("unknown"));
    };
    let content = match verbosity {
        0 => hex(found.data().as_slice()),
        1 => Value::Null,
        _ => json!(json::TransactionView::from(found)),
    };
    let status = match place {
        Some((block, index)) => json!({
            "status": "committed", "block_number": format!("{:#x}", block.number()),
            "block_hash": format!("{:#x}", block.hash()), "tx_index": format!("{index:#x}"), "reason": null,
        }),
        None => outside("pending"),
    };
    answer(content, chain.cycles.get(hash).map(|cycles| format!("{cycles:#x}")), status)
}

/// Without the data, which no client requests.
fn live_cell(chain: &Chain, place: &Value) -> Value {
    let unknown = json!({ "cell": null, "status": "unknown", "block_hash": null });
    let Ok(place) = serde_json::from_value::<json::OutPoint>(place.clone()) else { return unknown };
    let place = packed::OutPoint::from(place);
    let index = u32::from(place.index()) as usize;
    let made = chain.find(&place.tx_hash().into()).filter(|(_, block)| block.is_some());
    let Some((output, _)) = made.and_then(|(it, _)| it.output_with_data(index)) else { return unknown };
    if chain.is_spent(&place) {
        return json!({ "cell": null, "status": "dead", "block_hash": null });
    }
    let cell = json!({ "output": json::CellOutput::from(output), "data": null });
    json!({ "cell": cell, "status": "live", "block_hash": null })
}

fn consensus(chain: &Chain) -> Value {
    let epoch = |epoch: Option<u64>| epoch.map(|epoch| format!("{epoch:#x}"));
    json!({
        "id": "ckb_test",
        "hardfork_features": [
            { "rfc": "0028", "epoch_number": epoch(chain.forks[0]) },
            { "rfc": "0032", "epoch_number": epoch(chain.forks[0]) },
            { "rfc": "0049", "epoch_number": epoch(chain.forks[1]) },
        ],
    })
}

fn proof(chain: &Chain, hashes: &Value, hash: &H256) -> Result<Value, (i64, String)> {
    let wanted: Vec<H256> = serde_json::from_value(hashes.clone()).unwrap_or_default();
    let block = chain.blocks().iter().find(|it| it.hash().as_slice() == hash.as_bytes());
    let Some(block) = block else { return Err((-32602, "Cannot find block".to_owned())) };
    let all: Vec<Byte32> = block.tx_hashes().to_vec();
    let mut indices = Vec::new();
    for hash in &wanted {
        let index = all.iter().position(|it| it.as_slice() == hash.as_bytes());
        let Some(index) = index else { return Err((-32602, "not in block".to_owned())) };
        indices.push(u32::try_from(index).unwrap_or(u32::MAX));
    }
    let Some(proof) = CBMT::build_merkle_proof(&all, &indices) else {
        return Err((-32602, "no proof".to_owned()));
    };
    let indices: Vec<String> = proof.indices().iter().map(|it| format!("{it:#x}")).collect();
    let lemmas: Vec<String> = proof.lemmas().iter().map(|it| format!("{it:#x}")).collect();
    let witnesses: Vec<Byte32> = block.tx_witness_hashes().to_vec();
    Ok(json!({
        "block_hash": format!("{hash:#x}"), "witnesses_root": format!("{:#x}", merkle_root(&witnesses)),
        "proof": { "indices": indices, "lemmas": lemmas },
    }))
}
