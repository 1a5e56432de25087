//! Authors' mistakes around a transaction: each message names the file and the next step.

use std::fs;

use crate::{
    command::{antares, transaction, usage},
    elf,
};

/// Changes of the file, the command's arguments (none: verify), and the expected parts of the message.
const MISTAKES: &str = r#"
data1 => type |  | ScriptNotFound & cell_deps[0] has data with this hash: the hash type is data2 then
{{ hash lock }} => ABAB |  | cell_deps[0] has 136 bytes of data with hash 0x & no cell dep has a data hash of 0xabab & `antares hash FILE`
data1 => data ; "cell_deps": [{"out => DEP_TWICE |  | tx.cell_deps[1]: is tx.cell_deps[0] again, and nodes refuse & hash type data runs VM version 0 & data2
{{ data lock }} => {{ data x86 }} ; {{ hash lock }} => {{ hash x86 }} |  | cell_deps[0] is an ELF file for x86-64, not for RISC-V
{{ data lock => {{ dta lock |  | tx.json: line & there is no placeholder "dta": there are data, hash
{{ data lock => {{ data nosuch |  | tx.json: line & cannot read nosuch
0x{{ data lock => {{ data lock |  | tx.json: the transaction & do not begin with 0x & "0x{{ data FILE }}"
 | verify --tx tx.json --group lock --cell input.9 | tx.json: the transaction & input.9 has no lock script
 | run tx.json | tx.json is JSON: antares verify --tx takes a transaction
 | snapshot . --check | antares snapshot without --check records it: cannot read
{\n => {,\n |  | tx.json: the transaction & line 1, column 2:
"witnesses" => "witness" |  | tx.json: & no such key: `witness`; it is `witnesses`
"data1" => "date" |  | tx.json: & no such value: `date`: hash types are
{\n => { // A note.\n |  | a key in quotation marks is needed here: JSON has no comments
0x0"}}, => 0x0"}},} |  | line 4, column 151: a comma stands before the closing bracket: remove it
"dep_type": "code"} => "dep_type": "dep_group"} ; "code"}] => "dep_group"}] |  | tx.json: & is no list of out points, as a dep group has: the `dep_type` of a cell with a script is
 | verify --tx tx.json --error-codes nosuch | antares: cannot read nosuch
 | run lock --max-cycles 10x | must be a whole number below 2^64; k, M or G may
"outputs_data": [] => "outputs_data": ["0x"] |  | tx.json: & entries, but tx.outputs has
"#;

/// Files that are no transactions, and a part of the message.
const FILES: [(&[u8], &str); 6] = [
    (b"[]", "tx.json: the transaction cannot be used: the whole (line 1, column 2): an empty list stands"),
    (b"null", "tx.json: the transaction cannot be used: the whole (line 1, column 4): null stands where a"),
    (b" ", "the text ends too early: a bracket or a quotation mark is not closed: it is empty"),
    (b"\xff\xfe{\0", "line 1, column 1: this is no JSON: it is UTF-16: save it as UTF-8"),
    (b"{\n\"{{ data lock }}\xe9\"}", "tx.json: line 2, column 17: this is no UTF-8"),
    (b"[[cells]]\ndata = \"{{ data lock }}\"", "this is no JSON: it is TOML: name the file *.toml"),
];

#[test]
fn files_that_are_no_transactions_are_named_as_what_they_are() {
    let folder = tempfile::tempdir().unwrap();
    for (content, part) in FILES {
        fs::write(folder.path().join("tx.json"), content).unwrap();
        let said = usage(folder.path(), &["verify", "--tx", "tx.json"]);
        assert!(said.contains(part), "no {part:?} in\n{said}");
    }
}

/// The first cell dep of the transaction, and the beginning of the list.
const DEP_TWICE: &str = "\"cell_deps\": [{\"out_point\": {\"tx_hash\": \
    \"0x2222222222222222222222222222222222222222222222222222222222222222\", \"index\": \"0x0\"}, \
    \"dep_type\": \"code\"}, {\"out";
const ABAB: &str = "abababababababababababababababababababababababababababababababab";

#[test]
fn mistakes_are_reported_with_the_next_step() {
    for row in MISTAKES.trim().lines() {
        let [changes, words, reported]: [&str; 3] = row.split(" | ").collect::<Vec<_>>().try_into().unwrap();
        let folder = tempfile::tempdir().unwrap();
        // `sh1add a0, zero, zero`, of the B extension, then exit 0.
        let mut script = elf::of(&[0x2000_2533, 0x0000_0513, 0x05d0_0893, 0x73]);
        fs::write(folder.path().join("lock"), &script).unwrap();
        script[18] = 62;
        script[120..124].fill(0xff);
        fs::write(folder.path().join("x86"), &script).unwrap();
        let good = transaction("data1");
        let changes = changes.replace("\\n", "\n").replace("ABAB", ABAB).replace("DEP_TWICE", DEP_TWICE);
        let changes = changes.split(" ; ").filter_map(|change| change.split_once(" => "));
        let text = changes.fold(good, |text, (from, to)| {
            assert!(text.contains(from), "{from}");
            text.replacen(from, to, 1)
        });
        fs::write(folder.path().join("tx.json"), text).unwrap();
        let words = if words.is_empty() { "verify --tx tx.json" } else { words };
        let (status, stdout, stderr) = antares(folder.path(), &words.split(' ').collect::<Vec<_>>());
        let said = stdout + &stderr;
        assert!(status != Some(0) && said.len() < 4_000, "{row}: {said}");
        reported.split(" & ").for_each(|part| assert!(said.contains(part), "{row}: no {part:?} in\n{said}"));
    }
}

/// Output of `antares test` for a lock that exits with 1: the expectation, and a replacement in its
/// transaction.
const EXPECTATIONS: [(&str, &str, &str, &str); 7] = [
    ("accepted", "", "", "FAILED  tx.toml: exit 1; expected: accepted"),
    ("rejected", "", "", "ok      tx.toml: exit 1"),
    ("exit 1", "", "", "ok      tx.toml: exit 1"),
    ("exit 2", "", "", "FAILED  tx.toml: exit 1; expected: exit 2"),
    // No script rejects.
    ("rejected", "\"{{ code-hash lock }}\"", ABAB_HASH, "FAILED  tx.toml: TransactionScriptError"),
    ("rejected", "args = \"0x\"", "args = \"0x0\"", "FAILED  tx.toml: malformed; expected: "),
    ("rejected", "capacity_shannons = 1", "capacity_shannons = 2", "ok      tx.toml: exit 1"),
];

const ABAB_HASH: &str =
    "\"0xabababababababababababababababababababababababababababababababab\", hash_type = \"data2\"";

#[test]
fn a_test_passes_where_a_script_does_what_is_expected() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("lock"), elf::of(&[0x0010_0513, 0x05d0_0893, 0x73])).unwrap();
    for (expected, from, to, said) in EXPECTATIONS {
        let text = format!(
            "expect = \"{expected}\"\n[[cells]]\nname = \"lock\"\nfile = \"lock\"\n[[inputs]]\n\
             lock = {{ code_hash = \"{{{{ code-hash lock }}}}\", args = \"0x\" }}\ncapacity_shannons = 1\n"
        );
        assert!(text.contains(from), "{from}");
        fs::write(folder.path().join("tx.toml"), text.replace(from, to)).unwrap();
        let (status, stdout, _) = antares(folder.path(), &["test", "."]);
        assert!(stdout.starts_with(said), "{expected}, {to}: {stdout}");
        assert_eq!(status == Some(0), said.starts_with("ok"), "{stdout}");
    }
}
