//! Tests with a node that answers, one that does not, and one that lies.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::time::Duration;

use antares_chain::{Chain, Fault, TestNode};
use antares_node::{ChainNode, NodeError, NodeOptions, ResolveError, TransactionState};
use ckb_types::{
    H256,
    bytes::Bytes,
    core::{DepType, ScriptHashType, TransactionBuilder, TransactionView},
    packed::{Byte32, CellDep, CellInput, OutPoint},
    prelude::*,
};
use serde_json::{Value, json};

/// Short waits, but enough time for a slow machine.
fn options() -> NodeOptions {
    let backoff = Duration::from_millis(1);
    NodeOptions { attempts: 4, backoff, backoff_max: backoff, ..NodeOptions::default() }
}

fn client(server: &TestNode) -> ChainNode {
    ChainNode::new(&server.url, options()).unwrap()
}

fn hash(hash: Byte32) -> H256 {
    hash.into()
}

fn text(hash: &H256) -> String {
    format!("{hash:#x}")
}

/// A transaction that spends a cell, with a dep group of two members, a plain dep, a header dep of a block
/// with an extension, and one without.
fn spending(chain: &mut Chain) -> TransactionView {
    let cell = |code: &[u8]| Chain::locked(code, ScriptHashType::Data1);
    let made = [(cell(b"one"), Bytes::from_static(b"first")), (cell(b"two"), Bytes::from_static(b"second"))];
    let made = chain.push(&made, Vec::new()).hash();
    let place = |index: u32| OutPoint::new(made.clone(), index);
    let members = vec![place(0), place(1)].pack().as_bytes();
    let group = chain.push(&[(cell(b"group"), members)], Vec::new()).hash();
    chain.extension = Some(vec![7; 96]);
    chain.push(&[], Vec::new());
    let headers = [chain.tip(), 1].map(|number| chain.block(number).unwrap().hash());
    let dep = |point: OutPoint, kind: DepType| CellDep::new_builder().out_point(point).dep_type(kind).build();
    let transaction = TransactionBuilder::default()
        .input(CellInput::new(place(1), 0))
        .cell_dep(dep(OutPoint::new(group, 0), DepType::DepGroup))
        .cell_dep(dep(place(0), DepType::Code))
        .header_deps(headers)
        .output(cell(b"three"))
        .output_data(Bytes::from_static(b"third"))
        .witness(Bytes::from_static(b"witness"))
        .build();
    chain.push(&[], vec![(transaction.clone(), 1234)]);
    transaction
}

/// A chain with the same transaction.
fn spent() -> (Chain, TransactionView) {
    let mut chain = Chain::new();
    let transaction = spending(&mut chain);
    (chain, transaction)
}

#[tokio::test]
async fn what_a_node_tells_is_what_its_chain_has() {
    let mut chain = Chain::new();
    chain.forks = [Some(3), None];
    let transaction = spending(&mut chain);
    let server = TestNode::start(chain.clone());
    let node = client(&server);
    assert_eq!(node.tip().await.unwrap(), chain.tip());
    assert_eq!(node.tip_header().await.unwrap().hash(), chain.blocks().last().unwrap().hash());
    let rules = node.rules().await.unwrap();
    assert_eq!((rules.chain.as_str(), rules.vm_1_epoch, rules.vm_2_epoch), ("ckb_test", Some(3), None));
    let found = node.transaction(&hash(transaction.hash())).await.unwrap();
    assert_eq!(found.transaction.data().as_slice(), transaction.data().as_slice());
    assert_eq!(found.cycles, Some(1234));
    let TransactionState::Committed(place) = found.state else { panic!("{:?}", found.state) };
    assert_eq!(place.number, Some(chain.tip()));
    let block = node.block(&place.block_hash).await.unwrap().unwrap();
    assert_eq!(block.cycles, Some(vec![1234]));
    assert_eq!(block.view.data().as_slice(), chain.blocks().last().unwrap().data().as_slice());
    for number in 0..=chain.tip() {
        let block = node.block_at(number).await.unwrap().unwrap();
        assert_eq!(block.view.hash(), chain.block(number).unwrap().hash());
    }
    assert!(node.block_at(chain.tip() + 1).await.unwrap().is_none());
    let first = transaction.inputs().get(0).unwrap().previous_output();
    let made = OutPoint::new(transaction.hash(), 0);
    assert_eq!(node.not_live(&[made, first]).await.unwrap(), [1]);
}

#[tokio::test]
async fn answers_in_json_are_taken_as_those_in_molecule() {
    let (chain, transaction) = spent();
    let tip = chain.blocks().last().unwrap().clone();
    let lied = tip.clone();
    let extended = chain.block(3).unwrap().clone();
    let server = TestNode::start(chain);
    // Like a node that does not support the first verbosity level.
    server.lie(move |method, params, result| {
        let json_of =
            |block: &ckb_types::core::BlockView| json!(ckb_jsonrpc_types::BlockView::from(block.clone()));
        match method {
            "get_transaction" if params[1] == "0x0" && params[0] == text(&hash(transaction.hash())) => {
                result["transaction"] = json!(ckb_jsonrpc_types::TransactionView::from(transaction.clone()));
            }
            "get_header" => *result = json!(ckb_jsonrpc_types::HeaderView::from(lied.header())),
            "get_block" => result["block"] = json_of(&lied),
            "get_block_by_number" => result["block"] = json_of(&extended),
            _ => {}
        }
    });
    let node = client(&server);
    let wanted = hash(tip.transactions()[1].hash());
    assert_eq!(hash(node.transaction(&wanted).await.unwrap().transaction.hash()), wanted);
    assert_eq!(node.headers(&[hash(tip.hash())]).await.unwrap()[0].hash(), tip.hash());
    assert_eq!(node.block(&hash(tip.hash())).await.unwrap().unwrap().view.hash(), tip.hash());
    assert!(node.block_at(3).await.unwrap().unwrap().view.extension().is_some());
}

#[tokio::test]
async fn all_that_scripts_may_look_at_is_had() {
    let (chain, transaction) = spent();
    let server = TestNode::start(chain.clone());
    let resolved = client(&server).resolve(&transaction).await.unwrap();
    let info = &resolved.mock.mock_info;
    assert_eq!((&info.inputs[0].data[..], info.inputs.len()), (&b"second"[..], 1));
    let data: Vec<&[u8]> = info.cell_deps.iter().map(|dep| &dep.data[..]).collect();
    assert_eq!(data[1..], [&b"first"[..], b"second"], "the group's members, each once");
    assert_eq!(info.inputs[0].header, Some(chain.block(1).unwrap().hash()));
    assert_eq!(info.cell_deps[0].header, Some(chain.block(2).unwrap().hash()));
    let headers: Vec<Byte32> = info.header_deps.iter().map(|header| header.hash()).collect();
    assert_eq!(headers, transaction.header_deps_iter().collect::<Vec<_>>());
    assert_eq!(info.extensions, [(chain.block(3).unwrap().hash(), Bytes::from(vec![7; 96]))]);
    // A few round trips, not one for each cell.
    assert!(server.requests() <= 8, "{} requests", server.requests());
    let again: Value = serde_json::from_slice(&resolved.to_json()).unwrap();
    assert_eq!(again["mock_info"]["extensions"][0][1], format!("0x{}", "07".repeat(96)));
}

/// The error of `resolve` with a node that lies like `lie`.
async fn caught(
    chain: &Chain,
    transaction: &TransactionView,
    lie: impl FnMut(&str, &Value, &mut Value) + Send + 'static,
) -> String {
    let server = TestNode::start(chain.clone());
    server.lie(lie);
    match client(&server).resolve(transaction).await {
        Err(error @ (ResolveError::At { .. } | ResolveError::ChainNode(_))) => error.to_string(),
        other => panic!("{:?}", other.map(|_| "resolved")),
    }
}

/// Asserts that an error begins like this and has these parts.
#[track_caller]
fn assert_said(said: &str, begin: &str, parts: &[&str]) {
    assert!(said.starts_with(begin) && parts.iter().all(|part| said.contains(part)), "{said}");
}

/// `digits` with another last byte.
fn changed(digits: &Value) -> Value {
    let text = digits.as_str().unwrap();
    let (start, last) = text.split_at(text.len() - 1);
    json!(format!("{start}{}", if last == "0" { "1" } else { "0" }))
}

#[tokio::test]
async fn a_node_that_lies_about_cells_is_caught_with_the_place() {
    let (chain, transaction) = spent();
    let made = hash(transaction.inputs().get(0).unwrap().previous_output().tx_hash());
    let group = hash(transaction.cell_deps().get(0).unwrap().out_point().tx_hash());
    let other = chain.find(&group).unwrap().0;
    let of = text(&made);
    let said = caught(&chain, &transaction, move |method, params, result| {
        if method == "get_transaction" && params[0] == of && params[1] == "0x0" {
            result["transaction"] = json!(ckb_jsonrpc_types::JsonBytes::from_bytes(other.data().as_bytes()));
        }
    });
    let other = "gives something else than it was asked for: get_transaction(0x";
    let place = "tx.inputs[0].previous_output: http://127.0.0.1:";
    assert_said(&said.await, place, &[&text(&made), &text(&group), other]);
    // Data of a group member: a byte in the middle of its transaction.
    let of = text(&made);
    let said = caught(&chain, &transaction, move |method, params, result| {
        if method == "get_transaction" && params[0] == of && params[1] == "0x0" {
            let digits = result["transaction"].as_str().unwrap().replace("7365636f6e64", "5365636f6e64");
            assert_ne!(digits, result["transaction"].as_str().unwrap(), "it has the data");
            result["transaction"] = json!(digits);
        }
    });
    assert!(said.await.contains("it is a transaction with the hash 0x"));
    let of = text(&group);
    let said = caught(&chain, &transaction, move |method, params, result| {
        if method == "get_transaction" && params[0] == of {
            result["transaction"] = Value::Null;
            result["tx_status"] = json!({ "status": "rejected", "reason": "because" });
        }
    });
    let unknown = "the node does not know it (rejected: because)";
    assert_said(&said.await, "tx.cell_deps[0].out_point: ", &[unknown]);
}

#[tokio::test]
async fn a_node_that_lies_about_headers_and_blocks_is_caught() {
    let (chain, transaction) = spent();
    let said = caught(&chain, &transaction, |method, _, result| {
        if method == "get_header" {
            *result = changed(result);
        }
    });
    assert_said(&said.await, "tx.header_deps[0]: ", &["it is a header with the hash"]);
    // The header's extension.
    let said = caught(&chain, &transaction, |method, _, result| {
        if method == "get_block" {
            result["block"] = changed(&result["block"]);
        }
    });
    assert_said(&said.await, "", &["its header has the extra_hash 0x"]);
    // The block that created a cell: relevant with header deps.
    let (first, last) = (chain.block(0).unwrap().hash(), hash(chain.blocks().last().unwrap().hash()));
    for wrong in [hash(first), last] {
        let said = caught(&chain, &transaction, move |method, params, result| {
            match method {
                "get_transaction" if params[1] == "0x1" => {
                    result["tx_status"]["block_hash"] = json!(text(&wrong));
                }
                // A proof of another transaction.
                "get_transaction_proof" => {
                    *result = json!({ "witnesses_root": format!("0x{}", "00".repeat(32)),
                    "proof": { "indices": ["0x0"], "lemmas": [] } })
                }
                _ => {}
            }
        });
        let said = said.await;
        assert!(
            said.contains("nothing proves that it is in block 0x") || said.contains("not in block"),
            "{said}"
        );
    }
}

#[tokio::test]
async fn a_node_that_lies_about_a_block_is_caught() {
    let (chain, _) = spent();
    let tip = chain.tip();
    let server = TestNode::start(chain.clone());
    let node = client(&server);
    let witness = "7769746e657373";
    server.lie(move |_, _, result| {
        let digits = result["block"].as_str().unwrap_or_default();
        assert!(digits.contains(witness));
        result["block"] = json!(digits.replace(witness, "5769746e657373"));
    });
    let said = node.block_at(tip).await.unwrap_err().to_string();
    assert!(said.contains("its header has the transactions_root 0x"), "{said}");
    server.lie(|_, _, result| result["cycles"] = json!([]));
    let said = node.block_at(tip).await.unwrap_err().to_string();
    assert!(said.contains("cycles of 0 transactions, not of 1"), "{said}");
    let other = chain.block(1).unwrap().data();
    server.lie(move |_, _, result| {
        let bytes = ckb_jsonrpc_types::JsonBytes::from_bytes(other.as_bytes());
        *result = json!({ "block": bytes, "cycles": [] });
    });
    let said = node.block_at(tip).await.unwrap_err().to_string();
    assert_said(&said, "", &["it is block 1", &format!("get_block_by_number({tip:#x})")]);
    let said = node.block(&hash(chain.block(tip).unwrap().hash())).await.unwrap_err().to_string();
    assert!(said.contains("it is a block with the hash 0x"), "{said}");
}

#[tokio::test]
async fn what_breaks_is_asked_for_again() {
    let chain = Chain::new();
    let server = TestNode::start(chain);
    let node = client(&server);
    for faults in [
        vec![Fault::Status(503), Fault::Status(429), Fault::Closed],
        vec![Fault::Cut(0), Fault::Cut(20), Fault::Cut(30)],
    ] {
        server.fail(faults);
        assert_eq!(node.tip().await.unwrap(), 0);
    }
    server.fail(vec![Fault::Status(503); 4]);
    let before = server.requests();
    assert!(matches!(node.tip().await, Err(NodeError::Status { status: 503, .. })));
    assert_eq!(server.requests() - before, 4, "and no more");
    // Permanent errors are not retried.
    server.fail([Fault::Status(404)]);
    let before = server.requests();
    assert!(matches!(node.tip().await, Err(NodeError::Status { status: 404, .. })));
    assert_eq!(server.requests() - before, 1);
    let refusal = |code: i64| json!({ "id": 0, "error": { "code": code, "message": "" } }).to_string();
    let others =
        ["\"rate limited\"", "{\"code\":-32000}"].map(|error| format!("{{\"id\":0,\"error\":{error}}}"));
    for body in [-32_005, -32_603, 429, 502].map(refusal).into_iter().chain(others) {
        server.fail([Fault::Body(body)]);
        assert_eq!(node.tip().await.unwrap(), 0);
    }
    server.fail(vec![Fault::Body("<html>busy".to_owned()); 4]);
    assert!(matches!(node.tip().await, Err(NodeError::NoJson { .. })));
    server.fail([Fault::Body(refusal(-32_601))]);
    assert!(matches!(node.tip().await, Err(NodeError::Refused { code: -32_601, .. })));
    for body in ["[]", "{}", "{\"id\":7,\"result\":\"0x1\"}", "{\"id\":0,\"result\":7}"] {
        server.fail([Fault::Body(body.to_owned())]);
        let said = node.tip().await.unwrap_err();
        let is_senseless = matches!(&said, NodeError::Senseless { method: "get_tip_block_number", .. });
        assert!(is_senseless, "{body}: {said}");
    }
    server.fail([Fault::Body(
        json!({ "id": 0, "error": { "code": -1, "message": "x".repeat(10_000) } }).to_string(),
    )]);
    let said = node.tip().await.unwrap_err().to_string();
    assert!(said.contains("error -1: xxx") && said.len() < 500, "{said}");
}

#[tokio::test]
async fn a_silent_node_is_left_in_time() {
    let server = TestNode::start(Chain::new());
    let options = NodeOptions { call_time: Duration::from_millis(50), attempts: 2, ..options() };
    let node = ChainNode::new(&server.url, options).unwrap();
    server.fail([Fault::Silent, Fault::Silent]);
    assert!(matches!(node.tip().await, Err(NodeError::TooSlow { .. })));
    drop(server);
    let nobody =
        ChainNode::new("http://127.0.0.1:1", NodeOptions { attempts: 2, ..self::options() }).unwrap();
    let said = nobody.tip().await.unwrap_err();
    assert!(matches!(&said, NodeError::Unreachable { .. }), "{said}");
}

#[tokio::test]
async fn a_body_without_end_is_not_read_to_its_end() {
    let server = TestNode::start(Chain::new());
    let options = NodeOptions { answer_bytes_max: 1 << 20, ..options() };
    let node = ChainNode::new(&server.url, options).unwrap();
    server.fail([Fault::Endless]);
    let before = server.requests();
    let said = node.tip().await.unwrap_err();
    assert!(matches!(&said, NodeError::TooLong { bytes_max: 0x10_0000, .. }), "{said}");
    assert_eq!(server.requests() - before, 1, "it would not be shorter");
    assert_eq!(node.tip().await.unwrap(), 0);
}

#[tokio::test]
async fn batches_are_what_the_node_takes() {
    let mut chain = Chain::new();
    let hashes: Vec<H256> = (0..70).map(|_| hash(chain.push(&[], Vec::new()).hash())).collect();
    let server = TestNode::start(chain);
    let all = client(&server).transactions(&hashes).await.unwrap();
    assert_eq!((all.len(), server.requests()), (70, 3));
    server
        .fail([Fault::Body(json!({ "id": null, "error": { "code": -32_005, "message": "" } }).to_string())]);
    client(&server).transactions(&hashes[..2]).await.unwrap();
    assert_eq!(server.requests(), 5, "a batch that comes too soon is sent again as one");
    server.take_batches_of(1);
    let all = client(&server).transactions(&hashes).await.unwrap();
    assert_eq!(all.len(), 70);
    let body = |ids: [u64; 2]| {
        let answer = |id: u64| json!({ "id": id, "result": null });
        Fault::Body(json!([answer(ids[0]), answer(ids[1])]).to_string())
    };
    server.take_batches_of(100);
    for (fault, word) in [
        (body([0, 0]), "two answers"),
        (body([0, 7]), "an id that no call has"),
        (Fault::Body("[{\"id\":1,\"result\":null}]".to_owned()), "has no answer"),
        (Fault::Body("{\"id\":0,\"result\":null}".to_owned()), "one answer to many"),
    ] {
        server.fail([fault]);
        let said = client(&server).transactions(&hashes[..2]).await.unwrap_err().to_string();
        assert!(said.contains(word), "{word}: {said}");
    }
}

#[tokio::test]
async fn what_was_had_is_not_asked_for_again() {
    let (chain, transaction) = spent();
    let server = TestNode::start(chain);
    let folder = std::env::temp_dir().join(format!("antares-node-{}", std::process::id()));
    let options = NodeOptions { folder: Some(folder.clone()), ..options() };
    let again = || ChainNode::new(&server.url, options.clone()).unwrap();
    let first = again().resolve(&transaction).await.unwrap().to_json();
    let _ = server.take_calls();
    assert_eq!(again().resolve(&transaction).await.unwrap().to_json(), first);
    // Positions of transactions and their proofs may change.
    let calls = server.take_calls();
    let may_change = ["get_transaction", "get_transaction_proof"];
    assert!(calls.iter().all(|it| may_change.contains(&&**it)), "{calls:?}");
    server.lie(|method, params, _| assert!(method != "get_transaction" || params[1] == "0x1"));
    again().resolve(&transaction).await.unwrap();
    server.be_honest();
    // Damaged files are not used.
    let mut damaged = 0;
    for part in std::fs::read_dir(folder.join("transactions")).unwrap() {
        for file in std::fs::read_dir(part.unwrap().path()).unwrap() {
            let path = file.unwrap().path();
            let mut bytes = std::fs::read(&path).unwrap();
            let last = bytes.len() - 40;
            bytes[last] ^= 1;
            std::fs::write(&path, bytes).unwrap();
            damaged += 1;
        }
    }
    assert!(damaged >= 2);
    assert_eq!(again().resolve(&transaction).await.unwrap().to_json(), first);
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn what_does_not_fit_is_reported_with_its_place() {
    let (chain, transaction) = spent();
    let server = TestNode::start(chain.clone());
    let node = client(&server);
    let made = transaction.inputs().get(0).unwrap().previous_output().tx_hash();
    let spending = |index: u32| {
        let input = CellInput::new(OutPoint::new(made.clone(), index), 0);
        transaction.as_advanced_builder().set_inputs(vec![input])
    };
    let said = node.resolve(&spending(9).build()).await.err().unwrap();
    assert!(matches!(&said, ResolveError::NoSuchOutput { outputs: 2, index: 9, .. }), "{said}");
    assert!(said.to_string().starts_with("tx.inputs[0].previous_output: "), "{said}");
    let group =
        CellDep::new_builder().out_point(OutPoint::new(made.clone(), 0)).dep_type(DepType::DepGroup).build();
    let said = node.resolve(&spending(1).set_cell_deps(vec![group]).build()).await.err().unwrap();
    assert!(matches!(&said, ResolveError::NoGroup { .. }), "{said}");
    let cellbase = chain.block(1).unwrap().transactions()[0].clone();
    assert_eq!(node.resolve(&cellbase).await.err(), Some(ResolveError::Cellbase));
}
