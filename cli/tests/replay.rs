//! `antares dump`, `verify --tx-hash` and `replay` against a test node, with real workers.

use std::{fs, path::Path};

use antares_chain::{Chain, Fault, TestNode, exits};
use ckb_types::{core::TransactionView, packed::OutPoint, prelude::*};
use serde_json::{Value, json};

use crate::command::{self, command};

/// Cycles of `exits` as a lock: loading and three instructions.
fn cycles_of(elf: &[u8]) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("lock"), elf).unwrap();
    let words = ["run", "lock", "--as-lock", "--vm-version", "1", "--json"];
    command::json(&command::text(folder.path(), &words, 0))["cycles"].as_u64().unwrap()
}

/// Standard output and standard error of a command that ends with `status`.
#[track_caller]
fn reported(words: &[&str], status: i32) -> (String, String) {
    // Without a head start, transactions from a file also run in workers.
    command::ends_with(status, command(Path::new("."), words).env("ANTARES_HEAD_START_MS", "0"))
}

fn hash(transaction: &TransactionView) -> String {
    format!("{:#x}", transaction.hash())
}

/// A chain of `count` blocks with two transactions each, as a node has them.
fn chain(count: u32) -> (Chain, Vec<TransactionView>) {
    let elf = exits(0);
    let mut chain = Chain::new();
    let all = chain.grow(&elf, count, cycles_of(&elf));
    (chain, all)
}

#[test]
fn a_transaction_is_dumped_and_verified_by_its_hash() {
    let (chain, all) = chain(1);
    let node = TestNode::start(chain);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tx.json");
    let path = path.to_str().unwrap();
    let (hash, rpc) = (hash(&all[1]), node.url.as_str());
    let (stdout, stderr) = reported(&["dump", "--tx-hash", &hash, "--rpc", rpc, "-o", path], 0);
    assert!(stdout.is_empty() && stderr.contains("1 inputs, 1 cells of deps, 0 headers"), "{stdout}{stderr}");
    assert!(stderr.trim_end().ends_with(&format!("antares verify --tx {path}")), "{stderr}");
    let (printed, _) = reported(&["dump", "--tx-hash", &hash, "--rpc", rpc], 0);
    assert_eq!(fs::read_to_string(path).unwrap(), printed);
    let (of_file, _) = reported(&["verify", "--tx", path, "--json"], 0);
    let (by_hash, stderr) = reported(&["verify", "--tx-hash", &hash, "--rpc", rpc, "--json"], 0);
    assert_eq!((of_file, stderr.as_str()), (by_hash, ""));
    // A rejection has its exit status, and differing cycles of the node are reported.
    node.lie(|method, _, result| {
        if method == "get_transaction" {
            result["cycles"] = json!("0x7");
        }
    });
    let (_, stderr) = reported(&["verify", "--tx-hash", &hash, "--rpc", rpc], 0);
    assert!(stderr.contains(" cycles here, 7 as the node says"), "{stderr}");
}

#[test]
fn a_transaction_in_no_block_is_completed() {
    let (mut chain, all) = chain(1);
    let code = all[1].cell_deps().get(0).unwrap().out_point();
    let bare = Chain::spend(OutPoint::new(all[1].hash(), 0), (code.clone(), &exits(0)), b"third");
    let spent = Chain::spend(OutPoint::new(all[0].hash(), 0), (code, &exits(0)), b"fourth");
    chain.pool.push(bare.clone());
    let node = TestNode::start(chain);
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, transaction: &TransactionView| {
        let path = folder.path().join(name);
        let json = json!(ckb_jsonrpc_types::Transaction::from(transaction.data()));
        fs::write(&path, json.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (file, rpc) = (write("bare.json", &bare), node.url.as_str());
    let (_, stderr) = reported(&["verify", "--tx", &file], 2);
    assert!(stderr.contains("name a node with --rpc, or with --server a server that has one"), "{stderr}");
    let (verdict, stderr) = reported(&["verify", "--tx", &file, "--rpc", rpc, "--json"], 0);
    assert_eq!(stderr, "");
    let (dumped, _) = reported(&["dump", "--tx", &file, "--rpc", rpc], 0);
    assert_eq!(dumped, reported(&["dump", "--tx-hash", &hash(&bare), "--rpc", rpc], 0).0);
    let whole = folder.path().join("whole.json");
    fs::write(&whole, &dumped).unwrap();
    let whole = whole.to_str().unwrap();
    assert_eq!(reported(&["verify", "--tx", whole, "--rpc", rpc, "--json"], 0).0, verdict);
    let (_, stderr) = reported(&["dump", "--tx", whole, "--rpc", rpc], 2);
    assert!(stderr.contains("has its cells already"), "{stderr}");
    // A transaction that no node accepts any more.
    let file = write("spent.json", &spent);
    let (_, stderr) = reported(&["dump", "--tx", &file, "--rpc", rpc], 0);
    assert!(stderr.contains("tx.inputs[0] spends a cell that is spent already"), "{stderr}");
}

#[test]
fn the_rules_are_the_chain_s() {
    let elf = exits(0);
    let mut chain = Chain::new();
    chain.forks = [Some(5), None];
    chain.epoch = 4;
    let before = chain.grow(&elf, 1, 0);
    chain.epoch = 5;
    let after = chain.grow(&elf, 1, 0);
    let node = TestNode::start(chain);
    let verify = |transaction: &TransactionView, more: &[&str], status: i32| {
        let (hash, rpc) = (hash(transaction), node.url.as_str());
        reported(&[&["verify", "--tx-hash", &hash, "--rpc", rpc, "--json"], more].concat(), status).0
    };
    assert!(verify(&before[0], &[], 1).contains("InvalidVmVersion"));
    verify(&after[0], &[], 0);
    verify(&before[0], &["--script-version", "1"], 0);
    let (_, stderr) = reported(&["dump", "--tx-hash", &hash(&after[0]), "--rpc", &node.url], 0);
    assert!(stderr.trim_end().ends_with("--tx FILE --script-version 1"), "{stderr}");
}

#[test]
fn what_a_node_does_not_give_has_a_status_and_a_place() {
    let (chain, all) = chain(1);
    let node = TestNode::start(chain.clone());
    let (of, rpc) = (hash(&all[0]), node.url.clone());
    let unknown = format!("0x{}", "00".repeat(32));
    let cellbase = hash(&chain.block(1).unwrap().transactions()[0]);
    for (words, word) in [
        (vec!["dump", "--tx-hash", &unknown, "--rpc", &rpc], "does not know it (unknown)"),
        (vec!["verify", "--tx-hash", &cellbase, "--rpc", &rpc], "no script of it runs"),
        (vec!["dump", "--tx-hash", "0x00", "--rpc", &rpc], "64 hexadecimal digits"),
        (vec!["dump", "--tx-hash", &of], "--rpc"),
        (vec!["dump", "--rpc", &rpc], "--tx-hash"),
        (vec!["verify", "--tx-hash", &of], "--rpc"),
        (vec!["verify", "--rpc", &rpc], "--tx"),
        (vec!["dump", "--tx-hash", &of, "--rpc", "127.0.0.1:1"], "is no address of a node"),
        (vec!["replay", "--from", "2", "--to", "1", "--rpc", &rpc], "there are no blocks 2 to 1"),
        (vec!["replay", "--from", "0", "--to", "99", "--rpc", &rpc], "the chain ends with block 2"),
    ] {
        let (_, stderr) = reported(&words, 2);
        assert!(stderr.contains(word), "{word}: {stderr}");
    }
    // The witnesses, which the hash does not cover, differ from those in the block.
    let mut forged = chain.clone();
    forged.extension = Some(vec![1]);
    forged.push(&[], Vec::new());
    let block = format!("{:#x}", forged.block(forged.tip()).unwrap().hash());
    node.reorganise(forged);
    node.lie(move |method, params, result| {
        if method == "get_transaction" && params[0] == of {
            result["tx_status"]["block_hash"] = json!(block);
        }
    });
    let (_, stderr) = reported(&["verify", "--tx-hash", &hash(&all[0]), "--rpc", &rpc], 3);
    assert!(stderr.contains("where it is said to be"), "{stderr}");
}

#[test]
fn a_chain_is_replayed_without_differences() {
    let (chain, _) = chain(4);
    let node = TestNode::start(chain.clone());
    // The node fails now and then.
    node.fail([Fault::Status(503), Fault::Closed, Fault::Cut(10)]);
    let (stdout, stderr) = reported(&["replay", "--from", "0", "--rpc", &node.url, "--json"], 0);
    let lines: Vec<Value> = stdout.lines().map(command::json).collect();
    assert_eq!((lines.len(), stderr.as_str()), (7, ""));
    let summary = lines.last().unwrap();
    for (key, expected) in [
        ("kind", json!("summary")),
        ("from", json!(0)),
        ("to", json!(5)),
        ("blocks", json!(6)),
        ("transactions", json!(8)),
        ("native_transactions", json!(8)),
        ("differences", json!(0)),
        ("reorganised", json!(0)),
    ] {
        assert_eq!(summary[key], expected, "{key}");
    }
    let block = &lines[2];
    assert_eq!((&block["kind"], &block["number"]), (&json!("block"), &json!(2)));
    assert_eq!(block["hash"], json!(format!("{:#x}", chain.block(2).unwrap().hash())));
    let run = &block["transactions"][1];
    assert_eq!((&run["index"], &run["is_same"], &run["outcome"]), (&json!(2), &json!(true), &json!("ok")));
    assert_eq!(run["cycles"], run["node_cycles"]);
    let (text, _) =
        reported(&["replay", "--from", "2", "--to", "3", "--rpc", &node.url, "--tier", "interpreter"], 0);
    assert!(text.starts_with("block 2 0x") && text.contains(": 2 transactions, "), "{text}");
    assert!(text.contains("  transaction 1 0x") && text.contains(" 0 cycles native, "), "{text}");
    assert!(text.contains("\n2 blocks, 4 transactions, 0 of them in native code alone, "), "{text}");
    assert!(text.ends_with(": no differences\n"), "{text}");
}

#[test]
fn differences_are_reported() {
    let elf = exits(0);
    let mut chain = Chain::new();
    let honest = chain.grow(&elf, 1, cycles_of(&elf));
    let dear = chain.grow(&elf, 1, cycles_of(&elf) + 1);
    let wrong = chain.grow(&exits(9), 1, 1);
    let node = TestNode::start(chain);
    let (stdout, _) = reported(&["replay", "--from", "1", "--rpc", &node.url], 1);
    assert!(!stdout.contains(&hash(&honest[0])), "{stdout}");
    for (transaction, word) in [(&dear[0], "cycles here"), (&wrong[1], "the chain has accepted it, but ")] {
        let line = stdout.lines().find(|line| line.contains(&hash(transaction))).unwrap();
        assert!(line.starts_with("different: transaction ") && line.contains(word), "{line}");
    }
    let command = format!("  antares verify --tx-hash {} --rpc {} --explain\n", hash(&wrong[1]), node.url);
    assert!(stdout.contains(&command), "{stdout}");
    assert!(stdout.ends_with(": 4 differences\n"), "{stdout}");
}

#[test]
fn a_chain_that_is_reorganised_is_followed() {
    let (old, _) = chain(4);
    let mut new = old.until(3);
    let elf = exits(0);
    new.grow(&elf, 2, cycles_of(&elf));
    let node = TestNode::start(old.clone());
    // When block 5 is requested, block 4 is replaced.
    node.reorganise_at("get_block_by_number", "0x5", new.clone());
    let replayed = reported(&["replay", "--from", "0", "--to", "5", "--rpc", &node.url, "--json"], 0).0;
    let lines: Vec<Value> = replayed.lines().map(command::json).collect();
    let undone: Vec<&Value> = lines.iter().filter(|line| line["kind"] == "reorganised").collect();
    assert_eq!((undone.len(), &undone[0]["number"]), (1, &json!(4)), "{replayed}");
    let summary = lines.last().unwrap();
    let found = (&summary["blocks"], &summary["differences"], &summary["reorganised"]);
    assert_eq!(found, (&json!(6), &json!(0), &json!(1)));
    let reported_of =
        |number: u64| lines.iter().rev().find(|line| line["number"] == number).unwrap()["hash"].clone();
    for number in 0..=5 {
        let expected = format!("{:#x}", new.block(number).unwrap().hash());
        assert_eq!(reported_of(number), json!(expected), "{number}");
    }
}

#[test]
fn a_chain_that_does_not_fit_together_is_no_chain() {
    let (chain, _) = chain(3);
    let node = TestNode::start(chain.clone());
    // Block 3 is always from another chain.
    let mut other = chain.until(1);
    other.extension = Some(vec![1]);
    other.push(&[], Vec::new());
    other.push(&[], Vec::new());
    let block = other.block(3).unwrap().data();
    node.lie(move |method, params, result| {
        if method == "get_block_by_number" && params[0] == "0x3" {
            let block = ckb_jsonrpc_types::JsonBytes::from_bytes(block.as_bytes());
            *result = json!({ "block": block, "cycles": [] });
        }
    });
    let (_, stderr) = reported(&["replay", "--from", "1", "--rpc", &node.url], 3);
    assert!(stderr.contains("has no chain that fits together: its block 3 is behind 0x"), "{stderr}");
}
