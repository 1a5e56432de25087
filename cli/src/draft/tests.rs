//! Tests of transaction files: the resulting transaction, or the line and field of the first error.

use serde_json::Value;

use super::*;

/// A key, cells and an input with a lock.
const WHOLE: &str = r#"
expect = "exit 5"

[keys]
alice = "0x0101010101010101010101010101010101010101010101010101010101010101"
bob = "0x0202020202020202020202020202020202020202020202020202020202020202"

[[headers]]
name = "deposit"
epoch = "180+1/4"

[[cells]]
name = "lock"
data = "0x00"
hash_type = "type"

[[cells]]
name = "secp"
system = "secp256k1"
header = "deposit"

[[inputs]]
capacity_shannons = 10_000
lock = { code_hash = "0x{{ code-hash secp }}", args = "{{ pubkey-hash alice }}" }
data = "0x01{{ type-id 0 }}"
since = "relative epoch 1"
witness = { lock = "{{ sign secp256k1 alice }}", output_type = "0x02" }

[[inputs]]
lock = { code_hash = "{{ code-hash secp }}", args = "{{ pubkey-hash alice }}" }
raw_witness = "0x07"

[[outputs]]
lock = { code_hash = "{{ code-hash lock }}" }
type = { code_hash = "{{ hash file }}", hash_type = "data1", args = "{{ multisig-hash 1 alice bob }}" }
data = "{{ multisig 1 alice bob }}"
"#;

fn built(text: &str) -> Result<Value, DraftError> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), [0]).unwrap();
    build(text, folder.path()).map(|built| serde_json::from_slice(&built.json).unwrap())
}

#[test]
fn all_parts_are_where_they_belong() {
    let json = built(WHOLE).unwrap();
    let text = |path: &str| json.pointer(path).unwrap().as_str().unwrap().to_owned();
    let (lock, output) = ("/mock_info/inputs/0/output/lock", "/tx/outputs/0");
    assert_eq!(text(&format!("{lock}/hash_type")), "type");
    let mainnet = "0x9bd7e06f3ecf4be0f2fcd2188b23f1b9fcc88e5d4b65a8637b17723bbda3cce8";
    assert_eq!(text(&format!("{lock}/code_hash")), mainnet);
    assert_eq!(text("/tx/inputs/0/since"), "0xa000010000000001");
    // An argument with its own name: the hash of one zero byte.
    let zero = ckb_hash::blake2b_256([0]);
    assert_eq!(text(&format!("{output}/type/code_hash")), format!("0x{}", hex::encode(zero)));
    assert_eq!(text("/mock_info/inputs/0/data").len(), 2 + 2 * 33);
    assert_eq!(text("/tx/outputs_data/0").len(), 2 + 2 * 44);
    assert_eq!(text(&format!("{output}/lock/hash_type")), "type");
    assert_eq!(json["mock_info"]["cell_deps"].as_array().unwrap().len(), 3);
    assert_eq!(text("/mock_info/cell_deps/1/header"), text("/tx/header_deps/0"));
    assert_eq!(text("/tx/witnesses/1"), "0x07");
    assert_eq!(text("/tx/witnesses/0").len(), 2 + 2 * (16 + 4 + 65 + 4 + 1));
    let antares = antares_transaction::Mock::from_json(json.to_string().as_bytes());
    assert_eq!(antares.unwrap().as_ckb().tx.raw().inputs().len(), 2);
}

#[test]
fn expectations_are_read() {
    let of = |word: &str| build(&WHOLE.replace("exit 5", word), Path::new("/")).map(|it| it.expected);
    // The missing file is detected later.
    assert!(of("exit 0").unwrap_err().to_string().starts_with("line 2, expect: \"exit 0\" is not accepted,"));
    let minimal = |head: &str| build(&format!("{head}\ninputs = []"), Path::new("/")).unwrap().expected;
    assert_eq!(minimal(""), Expected::Accepted);
    assert_eq!(minimal("expect = \"rejected\""), Expected::Rejected);
    assert_eq!(minimal("expect = \"exit -3\""), Expected::Exit(-3));
}

/// Changes, each with the resulting line, field and problem.
const ERRORS: &str = r#"
expect = => expects = => line 2: no such key: `expects`; it is `expect`
expect = " => expect =  => line 2:
"0x0101 => "0x => line 5, keys.alice: has 30 bytes, not 32
02 => 00 => line 6, keys.bob: is no secret key
180+1/4 => 180+4/4 => line 10, headers[0].epoch: "180+4/4" is not an epoch: N, or N+I/L
data = "0x00" => file = "none" => line 14, cells[0].file: cannot read
data = "0x00"\n =>  => line 13, cells[0]: a cell has one of file, data and system
hash_type = "type" => hash_type = "dat" => line 15, cells[0].hash_type: "dat" is not data, data1,
name = "secp" => name = "lock" => line 18, cells[1].name: "lock" is defined twice
system = "secp256k1" => system = "secp" => line 19, cells[1].system: "secp" is not always-success,
header = "deposit" => header = "d" => line 20, cells[1].header: there is no header "d"; there are: deposit
capacity_shannons => capacity => line 23: no such key: `capacity`; it is `capacity_shannons`
0x{{ code-hash secp }} => 0x{{ code-hash s }} => line 24, inputs[0].lock.code_hash: there is no cell "s"; there are: lock, secp
0x{{ code-hash secp }} => 0x00 => line 24, inputs[0].lock.code_hash: has 1 bytes, not 32
0x{{ code-hash secp }} => 0x{{ hash file }} => line 24, inputs[0].lock.hash_type: is missing; only a code_hash of
raw_witness = => witness = {}\nraw_witness = => line 32, inputs[1].raw_witness: an input has one of witness
{{ pubkey-hash alice }} => {{ pubkey-hash carol }} => line 24, inputs[0].lock.args: there is no key "carol"; there are: alice, bob
{{ pubkey-hash alice }} => {{ sign secp256k1 bob }} => line 24, inputs[0].lock.args: a signature can only be
{{ type-id 0 }} => {{ type-id x }} => line 25, inputs[0].data: "type-id x" is no placeholder; there are data FILE
0x01{{ => 01{{ => line 25, inputs[0].data: "01{{ type-id 0 }}" is no bytes
0x01{{ => 0x1{{ => line 25, inputs[0].data: "0x1{{ type-id 0 }}" is no bytes
relative epoch => relative epochs => line 26, inputs[0].since: "relative epochs 1" is not [relative] block N
sign secp256k1 => sign schnorr => line 27, inputs[0].witness.lock: "sign schnorr alice" is no placeholder
sign secp256k1 alice }} => sign secp256k1 alice => line 27, inputs[0].witness.lock: "{{ sign secp256k1 alice" is no bytes
raw_witness = "0x07" => witness = { lock = "{{ sign secp256k1 bob }}" } => line 31, inputs[1].witness.lock: a signature belongs to the witness of its lock's first input, inputs[0]
multisig-hash 1 alice => multisig-hash 3 alice => line 35, outputs[0].type.args: 3 of 2 keys does not fit
{{ type-id 0 }} => {{ type-id 1 }} => line 25, inputs[0].data: output 1 of 1 does not fit
10_000 => -1 => line 23: a number stands where a whole number that is not negative is needed: `-1`
raw_witness => witness => line 31: text stands where a table is needed: "0x07"
[[outputs]] => [outputs] => line 33: a table stands where a list is needed
multisig 1 alice bob => multisig alice bob => line 36, outputs[0].data: "multisig alice bob" is no placeholder
"#;

#[test]
fn errors_name_line_and_field() {
    for row in ERRORS.trim().lines() {
        let [from, to, error]: [&str; 3] = row.split(" => ").collect::<Vec<_>>().try_into().unwrap();
        let [from, to] = [from, to].map(|text| text.replace("\\n", "\n"));
        let text = if from == "02" { WHOLE.replace(&from, &to) } else { WHOLE.replacen(&from, &to, 1) };
        assert_ne!(text, WHOLE, "{from}");
        let found = built(&text).unwrap_err().to_string();
        assert!(found.starts_with(error), "{from} -> {to}:\n{found}\n{error}");
    }
}

#[test]
fn placeholders_have_a_limit() {
    let many = format!("inputs = []\nwitnesses = [\"{}\"]", "{{ data file }}".repeat(40));
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), vec![0; 1 << 20]).unwrap();
    let error = build(&many, folder.path()).unwrap_err().to_string();
    assert!(error.starts_with("line 2, witnesses[0]: the transaction has more than"), "{error}");
}
