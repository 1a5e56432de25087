//! Transactions in ckb-debugger's JSON, each with one changed value, key or list: the server's errors over
//! gRPC equal the parser's.

use antares_chain::exits;
use antares_proto::v1::Tier;
use antares_transaction::{Mock, data_hash};
use serde_json::{Map, Value, json};
use tonic_types::StatusExt as _;

use crate::client::{Client, reason, serving, verification};

/// A key to duplicate.
const AGAIN: &str = "again!";
/// Invalid numbers, and some in unusual forms.
const NUMBERS: [&str; 12] = [
    "\"0x10000000000000064\"",
    "\"0x100000000\"",
    "\"100\"",
    "\"-1\"",
    "\"-0x1\"",
    "\"\"",
    "\"0x\"",
    "\"0X64\"",
    "\"0x064\"",
    "\" 0x64 \"",
    "\"0x6_4\"",
    "100",
];
const NAMES: [&str; 7] =
    ["\"data3\"", "\"Data1\"", "\"depGroup\"", "\"constructor\"", "\"\"", "null", "[\"code\"]"];
const BYTES: [&str; 7] = ["\"0x0\"", "\"\"", "\"01\"", "\"0x 01\"", "\"0xzz\"", "\"0X01\"", "null"];

/// Result of a transaction.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Verdict { outcome: String, cycles: u64 },
    Refused { code: i32, reason: String, fields: Vec<String> },
}

fn hash(last: u8) -> String {
    format!("0x{}{last:02x}", "00".repeat(31))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold("0x".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

/// A transaction with all optional parts. Its lock passes, and its input's type script exits with 7.
pub(crate) fn base() -> Value {
    let (passing, failing) = (exits(0), exits(7));
    let script = |elf: &[u8]| json!({"code_hash": hex(&data_hash(elf)), "hash_type": "data1", "args": "0x"});
    let output = json!({"capacity": "0x64", "lock": script(&passing), "type": script(&failing)});
    let plain = json!({"capacity": "0x64", "lock": script(&passing), "type": null});
    let place = |last| json!({"tx_hash": hash(last), "index": "0x0"});
    let dep = |last, kind: &str| json!({"out_point": place(last), "dep_type": kind});
    let cell =
        |dep: &Value, data: String| json!({"cell_dep": dep, "output": plain, "data": data, "header": null});
    let members = format!("0x01000000{}00000000", &hash(3)[2..]);
    let (code, group) = (dep(2, "code"), dep(4, "dep_group"));
    let cells = [cell(&code, hex(&passing)), cell(&dep(3, "code"), hex(&failing)), cell(&group, members)];
    let input = json!({"since": "0x0", "previous_output": place(1)});
    let header = json!({
        "compact_target": "0x0", "dao": hash(0), "epoch": "0x0", "extra_hash": hash(0), "hash": hash(6),
        "nonce": "0x0", "number": "0x0", "parent_hash": hash(0), "proposals_hash": hash(0),
        "timestamp": "0x0", "transactions_root": hash(0), "version": "0x0"
    });
    json!({
        "mock_info": {
            "inputs": [{"input": input, "output": output, "data": "0x", "header": null}], "cell_deps": cells,
            "header_deps": [header], "extensions": [[hash(6), "0x01"]]
        },
        "tx": {
            "version": "0x0", "cell_deps": [code, group], "header_deps": [hash(6)], "inputs": [input],
            "outputs": [plain], "outputs_data": ["0x"], "witnesses": ["0x"]
        }
    })
}

/// Pointers to all values in `value`.
fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(key, inner)| pointers(inner, &format!("{at}/{key}"), found));
        }
        Value::Array(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(index, item)| pointers(item, &format!("{at}/{index}"), found));
        }
        _ => {}
    }
}

fn is_number(key: &str) -> bool {
    ["capacity", "since", "index", "version", "compact_target", "timestamp", "number", "epoch", "nonce"]
        .contains(&key)
}

/// Replacements of the value at `pointer`.
fn replacements(pointer: &str, value: &Value) -> &'static [&'static str] {
    match (pointer.rsplit('/').next(), value) {
        (Some("hash_type" | "dep_type"), _) => &NAMES,
        (Some(key), _) if is_number(key) => &NUMBERS,
        (_, Value::String(_)) => &BYTES,
        (_, Value::Array(_)) => &["null", "{}", "[null]"],
        (_, Value::Object(_)) => &["\"\"", "[]"],
        _ => &["{}"],
    }
}

/// The transactions with one change each, one per line.
pub(crate) fn table() -> Vec<String> {
    let (base, mut paths) = (base(), Vec::new());
    pointers(&base, "", &mut paths);
    let mut lines = vec![base.to_string(), "{".to_owned(), "[]".to_owned(), base["tx"].to_string()];
    let mut add = |pointer: &str, change: &dyn Fn(&mut Value)| {
        let mut changed = base.clone();
        change(changed.pointer_mut(pointer).unwrap());
        lines.push(changed.to_string().replace(AGAIN, ""));
    };
    for path in &paths {
        let value = base.pointer(path).unwrap();
        for text in replacements(path, value) {
            add(path, &|place| *place = serde_json::from_str(text).unwrap());
        }
        if let Value::Array(items) = value {
            add(path, &|place| *place = json!([]));
            add(path, &|place| place.as_array_mut().unwrap().push(items[0].clone()));
        }
        let keys = value.as_object().map_or_else(Vec::new, |fields| fields.keys().collect());
        for key in keys {
            add(path, &|place| drop(place.as_object_mut().unwrap().remove(key)));
            add(path, &|place| rename(place.as_object_mut().unwrap(), key));
            add(path, &|place| place[format!("{AGAIN}{key}")] = place[key].clone());
        }
        if value.is_object() {
            add(path, &|place| place["unknown"] = json!("0x0"));
        }
    }
    lines
}

fn rename(fields: &mut Map<String, Value>, key: &str) {
    let value = fields.remove(key).unwrap();
    fields.insert(format!("{key}_"), value);
}

/// The server's answer to `json`.
pub(crate) async fn direct(client: &Client, json: &str) -> Answer {
    match client.verify(verification(json, Tier::Auto)).await {
        Ok(response) => {
            Answer::Verdict { outcome: response.outcome().as_str_name().to_owned(), cycles: response.cycles }
        }
        Err(status) => {
            let details = status.get_error_details();
            let violations = details.bad_request().map_or(&[][..], |wrong| &wrong.field_violations);
            let fields = violations.iter().map(|violation| violation.field.clone()).collect();
            Answer::Refused { code: status.code().into(), reason: reason(&status), fields }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_says_of_each_json_what_the_parser_says() {
    let (_data, _server, client) = serving("").await;
    let lines = table();
    assert!(lines.len() >= 300, "{}", lines.len());
    let (mut accepted, mut refused) = (0, 0);
    for line in &lines {
        let answer = direct(&client, line).await;
        match (Mock::from_json(line.as_bytes()), &answer) {
            (Ok(_), Answer::Verdict { .. }) => accepted += 1,
            (Err(error), Answer::Refused { code: 3, reason, fields }) if reason == "TRANSACTION_INVALID" => {
                // The document as a whole has no path.
                let path = error.path().filter(|path| !matches!(*path, "" | "."));
                assert_eq!(fields, &[path.unwrap_or("mock_json")], "{line}");
                refused += 1;
            }
            (parsed, answer) => panic!("{answer:?}, but {:?}: {line}", parsed.err()),
        }
    }
    assert!(accepted > 3 && refused > 250, "{accepted} accepted, {refused} refused");
    let failing = Answer::Verdict { outcome: "VERIFY_OUTCOME_FAILED".to_owned(), cycles: 1078 };
    assert_eq!(direct(&client, &lines[0]).await, failing);
}
