//! Errors in mock transactions: each is found and reported with its location.
#![allow(clippy::unwrap_used, reason = "a test")]

use antares_transaction::{Environment, Mock, MockError, limits::ENTRIES_MAX, programs};
use serde_json::{Value, json};

fn hash(last: u8) -> String {
    format!("0x{}{last:02x}", "00".repeat(31))
}

fn place(last: u8) -> Value {
    json!({ "tx_hash": hash(last), "index": "0x0" })
}

fn output() -> Value {
    json!({ "capacity": "0x10", "type": null, "lock": { "code_hash": hash(9), "hash_type": "data1", "args": "0x" } })
}

/// Two out points in molecule encoding: the members of a dep group.
fn members(places: &[u8]) -> String {
    let count = u8::try_from(places.len()).unwrap();
    let items: String = places.iter().map(|place| format!("{}00000000", &hash(*place)[2..])).collect();
    format!("0x{count:02x}000000{items}")
}

/// An input (1), code (2), a group (3) with members 4 and 5, a header (6).
fn good() -> Value {
    let input = json!({ "since": "0x1", "previous_output": place(1) });
    let dep = |last, kind| json!({ "out_point": place(last), "dep_type": kind });
    let cell =
        |last, kind, data: String| json!({ "cell_dep": dep(last, kind), "output": output(), "data": data });
    let header = json!({
        "compact_target": "0x0", "dao": hash(0), "epoch": "0x0", "extra_hash": hash(0), "hash": hash(6),
        "nonce": "0x0", "number": "0x0", "parent_hash": hash(0), "proposals_hash": hash(0),
        "timestamp": "0x0", "transactions_root": hash(0), "version": "0x0"
    });
    let code = |last| cell(last, "code", "0x".to_owned());
    json!({
        "mock_info": {
            "inputs": [{ "input": input, "output": output(), "data": "0x", "header": null }],
            "cell_deps": [code(2), cell(3, "dep_group", members(&[4, 5])), code(4), code(5)],
            "header_deps": [header]
        },
        "tx": {
            "version": "0x0", "cell_deps": [dep(2, "code"), dep(3, "dep_group")], "header_deps": [hash(6)],
            "inputs": [input], "outputs": [output()], "outputs_data": ["0x"], "witnesses": ["0x00"]
        }
    })
}

fn read(value: &Value) -> Result<Mock, MockError> {
    Mock::from_json(value.to_string().as_bytes())
}

/// The error of a valid transaction with `new` at `pointer` (a JSON pointer), and its path.
#[track_caller]
fn mistake(pointer: &str, new: Value, path: &str, expected: &str) {
    let mut value = good();
    *value.pointer_mut(pointer).unwrap() = new;
    check(&value, path, expected);
}

#[track_caller]
fn check(value: &Value, path: &str, expected: &str) {
    let error = read(value).err().expect("a mistake");
    assert_eq!(error.path(), Some(path), "{error}");
    assert!(error.to_string().contains(expected), "{error}");
}

#[track_caller]
fn push(pointer: &str, new: Value, path: &str, expected: &str) {
    let mut value = good();
    value.pointer_mut(pointer).unwrap().as_array_mut().unwrap().push(new);
    check(&value, path, expected);
}

#[test]
fn a_good_transaction_is_read() {
    let mock = read(&good()).unwrap();
    assert_eq!(mock.as_ckb().mock_info.cell_deps.len(), 4);
    assert!(programs(&mock, &Environment::default()).is_empty());
    // The hash of its header is arbitrary.
    let document = mock.document(&mut |_| None);
    let again = Mock::from_document(&document, &[]).unwrap();
    assert_eq!(again.to_json(), mock.to_json());
}

#[test]
fn text_that_is_no_json_has_line_and_column() {
    let error = |text: &str| Mock::from_json(text.as_bytes()).err().unwrap().to_string();
    assert_eq!(error("{\n  \"tx\": ,"), "line 2, column 9: this is no JSON");
    assert!(error("").starts_with("line 1, column 0: the text ends too early"));
    let deep = "[".repeat(100_000);
    assert!(error(&format!("{{\"more\": {deep}")).contains("ends too early"));
    assert!(error(&format!("{} x", good())).contains("something stands behind the end"));
    assert!(error(&",".repeat(600_000)).contains("600000 values, at most 524288"));
}

#[test]
fn a_bare_transaction_names_what_is_missing() {
    let error = read(&good()["tx"]).err().unwrap();
    assert_eq!(error, MockError::BareTransaction);
    assert!(error.to_string().contains("mock_info"));
    let mut value = good();
    value.as_object_mut().unwrap().remove("mock_info");
    assert!(read(&value).err().unwrap().to_string().contains("the key `mock_info` is missing"));
}

#[test]
fn what_is_meant_for_another_key_is_reported_and_notes_are_not() {
    let with = |pointer: &str, key: &str| {
        let mut value = good();
        let object = value.pointer_mut(pointer).unwrap().as_object_mut().unwrap();
        object.insert(key.to_owned(), json!({ "header_": 1 }));
        read(&value).err().map(|error| error.to_string())
    };
    for (pointer, key) in
        [("/mock_info", "name"), ("/mock_info", "header"), ("/mock_info/inputs/0", "note"), ("", "extension")]
    {
        assert_eq!(with(pointer, key), None, "{pointer} {key}");
    }
    for key in ["headers", "Header", "heaedr", "header_"] {
        let said = with("/mock_info/cell_deps/1", key).unwrap();
        assert_eq!(said, format!("mock_info.cell_deps[1].{key}: is no key; `header` is one"));
    }
    assert!(with("/mock_info", "extension").unwrap().starts_with("mock_info.extension: "));
}

/// Pointers with their values (`nothing` removes the key), and parts of the expected message.
const VALUES: &str = r#"
/tx/inputs/0/since = 1 => `1`: numbers are texts of hexadecimal digits here
/tx/inputs/0/since = 1.5 => a number stands where text is needed
/tx/inputs/0/since = true => true or false stands where text is needed
/tx/inputs/0/since = null => null stands where a value is needed
/tx/inputs/0/since = "10" => without `0x` prefix: numbers are texts of hexadecimal digits
/tx/inputs/0/since = "0x01" => with redundant leading zeros
/tx/inputs/0/since = "0xzz" => invalid digit found
/tx/inputs/0/since = nothing => the key `since` is missing
/tx/version = "1" => numbers are texts of hexadecimal digits
/tx/version = nothing => the key `version` is missing
/tx/witnesses = nothing => the key `witnesses` is missing
/tx/witnesses/0 = "0102" => the digits do not begin with 0x: "0102": write 0x in front
/tx/witnesses/0 = "0x123" => an odd number of hexadecimal digits: 3
/tx/witnesses/0 = "0xgg" => a character is no hexadecimal digit
/tx/witnesses/0 = "0x{{ data lock" => only `antares` fills in placeholders
/tx/witnesses/0 = 5 => numbers are texts
/tx/witnesses/0 = [] => a list stands where text is needed
/tx/witnesses = "0x" => text stands where a list is needed
/tx/outputs_data/0 = "7f454c46020101000000000000000000020000f30001000000" => 7f454c46020101000000000000000000020000f…
/tx/outputs/0 = {} => the key `
/tx/outputs/0 = [] => an empty list stands where an object is needed
/tx/outputs/0/capacity = 1000 => `1000`: numbers are texts
/tx/outputs/0/capacity = "0x10000000000000000" => number too large
/tx/outputs/0/type = "0x" => text stands where an object
/tx/cell_deps/0/dep_type = "group" => no such value: `group`: dep types are code and dep_group
/tx/cell_deps/0/dep_type = nothing => the key `dep_type` is missing
/tx/cell_deps/0/out_point = "0x" => text stands where an object
/tx/cell_deps/0/out_point/index = 0 => numbers are texts
/tx/cell_deps/0/out_point/tx_hash = "0xabcd" => 4 hexadecimal digits, but 64 are needed
/tx/header_deps/0 = 7 => a number stands where text is needed
/mock_info/inputs/0/output/lock/args = "0x0" => an odd number of hexadecimal digits: 1
/mock_info/inputs/0/output/lock/code_hash = "0x00" => 2 hexadecimal digits, but 64 are needed
/mock_info/inputs/0/output/lock/hash_type = "date" => no such value: `date`: hash types are data, type, data1 and data2
/mock_info/inputs/0/output/lock/hash_type = nothing => the key `hash_type` is missing
/mock_info/inputs/0/output/lock = nothing => the key `lock` is missing
/mock_info/inputs/0/data = nothing => the key `data` is missing
/mock_info/cell_deps/1/cell_dep = {} => the key `out_point` is missing
/mock_info/cell_deps = {} => an object stands where a list is needed
"#;

/// Misspelt keys, and the expected message.
const KEYS: [(&str, &str, &str); 4] = [
    ("/tx", "cell_deps", "cell_dep"),
    ("/tx", "outputs_data", "outputsData"),
    ("/tx/cell_deps/0", "dep_type", "depType"),
    ("/mock_info/inputs/0/output/lock", "hash_type", "hashType"),
];

/// Parser words that expose Rust types.
const NOT_OURS: [&str; 5] = ["struct ", "invalid type", "invalid length", "missing field", "unknown "];

#[test]
fn values_of_the_wrong_form_are_reported_in_plain_words_with_the_next_step() {
    let reported = |value: &Value, path: &str| {
        let error = read(value).err().expect("a mistake");
        let (found, text) = (error.path().unwrap_or_default(), error.to_string());
        assert!(path.starts_with(found) && !found.is_empty(), "{path}: {text}");
        assert!(NOT_OURS.iter().all(|word| !text.contains(word)) && text.len() < 300, "{text}");
        text
    };
    for row in VALUES.trim().lines() {
        let (change, expected) = row.split_once(" => ").unwrap();
        let (pointer, new) = change.split_once(" = ").unwrap();
        let mut value = good();
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        match new {
            "nothing" => _ = value.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(key),
            new => *value.pointer_mut(pointer).unwrap() = serde_json::from_str(new).unwrap(),
        }
        let path = pointer[1..].split('/').fold(String::new(), |path, part| match part.parse::<u8>() {
            Ok(index) => format!("{path}[{index}]"),
            Err(_) if path.is_empty() => part.to_owned(),
            Err(_) => format!("{path}.{part}"),
        });
        let text = reported(&value, &path);
        assert!(text.contains(expected), "{row}: {text}");
    }
    assert_eq!(read(&json!({})).err().unwrap().path(), None);
    for (pointer, key, wrong) in KEYS {
        let mut value = good();
        let object = value.pointer_mut(pointer).unwrap().as_object_mut().unwrap();
        let moved = object.remove(key).unwrap();
        object.insert(wrong.to_owned(), moved);
        let text = read(&value).err().unwrap().to_string();
        assert!(text.contains(&format!("no such key: `{wrong}`; it is `{key}`")), "{text}");
    }
}

#[test]
fn inputs_must_be_given_once() {
    let path = "mock_info.inputs[0]";
    mistake("/tx/inputs/0/previous_output", place(7), "tx.inputs[0].previous_output", "0007:0");
    mistake("/tx/inputs/0/since", json!("0x2"), &format!("{path}.input.since"), "tx.inputs[0]");
    mistake("/tx/inputs", json!([]), path, "not used");
    push("/mock_info/inputs", good()["mock_info"]["inputs"][0].clone(), "mock_info.inputs[1]", path);
    push("/tx/inputs", good()["tx"]["inputs"][0].clone(), "tx.inputs[1].previous_output", "tx.inputs[0]");
}

#[test]
fn cell_deps_must_be_given_once() {
    let deps = "mock_info.cell_deps";
    mistake("/tx/cell_deps/0/out_point", place(7), "tx.cell_deps[0].out_point", "0007:0");
    let kind = format!("{deps}[0].cell_dep.dep_type");
    mistake("/tx/cell_deps/0/dep_type", json!("dep_group"), &kind, "tx.cell_deps[0]");
    let again = good()["mock_info"]["cell_deps"][0].clone();
    push("/mock_info/cell_deps", again, &format!("{deps}[4]"), "cell_deps[0]");
    let spare = json!({ "cell_dep": { "out_point": place(8), "dep_type": "code" }, "output": output(), "data": "0x" });
    push("/mock_info/cell_deps", spare, &format!("{deps}[4]"), "not used");
}

#[test]
fn deps_that_are_listed_twice_are_told() {
    let repeated = |list: &str, entry: usize| {
        let mut value = good();
        let deps = value["tx"][list].as_array_mut().unwrap();
        deps.push(deps[entry].clone());
        read(&value).unwrap().repeated_dep().unwrap().to_string()
    };
    assert!(repeated("cell_deps", 1).starts_with("tx.cell_deps[2]: is tx.cell_deps[1] again, "));
    assert!(repeated("header_deps", 0).starts_with("tx.header_deps[1]: is tx.header_deps[0] again, "));
    assert_eq!(read(&good()).unwrap().repeated_dep(), None);
}

#[test]
fn dep_groups_must_be_whole() {
    let (data, at) = ("/mock_info/cell_deps/1/data", "mock_info.cell_deps[1].data");
    mistake(data, json!("0x1234"), at, "list of out points");
    mistake(data, json!("0x"), at, "list of out points");
    mistake(data, json!(members(&[])), at, "names no cell");
    mistake(data, json!(members(&[4, 7])), &format!("{at}[1]"), "0007:0");
    mistake(data, json!(members(&[4])), "mock_info.cell_deps[3]", "not used");
    let many = format!("0x01080000{}", "00".repeat(36 * 0x801));
    mistake(data, json!(many), at, "2049 entries, at most 2048");
}

#[test]
fn headers_and_lists_must_fit() {
    mistake("/tx/header_deps/0", json!(hash(7)), "tx.header_deps[0]", "no entry");
    mistake("/tx/header_deps", json!([]), "mock_info.header_deps[0]", "not used");
    let again = good()["mock_info"]["header_deps"][0].clone();
    push("/mock_info/header_deps", again, "mock_info.header_deps[1]", "[0]");
    push("/tx/outputs_data", json!("0x"), "tx.outputs_data", "2 entries, but tx.outputs has 1");
    let many: Vec<&str> = vec!["0x"; ENTRIES_MAX + 1];
    mistake("/tx/witnesses", json!(many), "tx.witnesses", "16385 entries, at most 16384");
}

#[test]
fn what_other_tools_write_is_reported_with_what_to_change() {
    let (path, problem) = ("mock_info.header_deps[0]", "this is the hash of a header, as offckb writes it");
    mistake("/mock_info/header_deps/0", json!(hash(6)), path, problem);
    let path = "mock_info.inputs[0].input.since";
    mistake("/mock_info/inputs/0/input/since", json!(1), path, "numbers are texts of hexadecimal digits");
    let said = |text: &str| Mock::from_json(text.as_bytes()).err().unwrap().to_string();
    let camel = said("{\"mockInfo\": {\"cellDeps\": []}, \"tx\": {}}");
    assert!(camel.contains("keys are written as nodes have them"), "{camel}");
    let yaml = said("mock_info:\n  inputs: []\n");
    assert!(yaml.contains("--output-format json"), "{yaml}");
}

#[test]
fn data_has_the_hash_of_ckbs_crates() {
    let bytes: Vec<u8> = (0..=255).cycle().take(1 << 16).collect();
    for length in [0, 1, 127, 128, 129, 4095, 4096, 4097, 1 << 16] {
        let data = &bytes[..length];
        let expected = ckb_types::packed::CellOutput::calc_data_hash(data);
        assert_eq!(antares_transaction::data_hash(data), <[u8; 32]>::from(expected), "{length} bytes");
    }
}
