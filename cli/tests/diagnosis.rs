//! Diagnoses by `run` and `verify`: short by default, complete with `--explain`, with stable keys in
//! `--json`.

use std::fs;

use tempfile::TempDir;

use crate::{
    command::{json, text, usage, with_lock},
    elf,
};

/// Loads a missing witness, and exits with 9 if that fails: `load_witness` with a0 = a1 = sp - 8.
const ASKS: [u32; 13] = [
    0xff81_0513, // addi a0, sp, -8
    0xff81_0593, // addi a1, sp, -8
    0x0005_b023, // sd zero, 0(a1)
    0x0000_0613, // li a2, 0
    0x0630_0693, // li a3, 99
    0x0010_0713, // li a4, 1
    0x7d00_0893, // li a7, 2000
    0x04a8_8893, // addi a7, a7, 74
    0x0000_0073, // ecall
    0x0005_0463, // beqz a0, +8
    0x0090_0513, // li a0, 9
    0x05d0_0893, // li a7, 93
    0x0000_0073, // ecall
];

/// A folder with this lock, and the transaction that uses it.
fn folder() -> TempDir {
    with_lock(elf::of(&ASKS))
}

#[test]
fn a_failing_lock_is_found_without_changing_the_script() {
    let folder = folder();
    let verify = ["verify", "--tx", "tx.json"];
    // The short form.
    let short = text(folder.path(), &verify, 1);
    let why = "why: exit code 9, decided in fn_0x10078 (0x1009c)";
    assert!(short.contains(why), "{short}");
    assert!(short.contains("branch beq a0,zero was not taken"), "{short}");
    assert!(short.contains("a0 = 1, the result of system call #0"), "{short}");
    let call = "load_witness(index 99, source Input, offset 0, room 0) = 1 INDEX_OUT_OF_BOUND";
    assert!(short.contains(call), "{short}");
    assert!(!short.contains("registers"), "{short}");
    // The complete form.
    let whole = text(folder.path(), &[&verify[..], &["--explain"]].concat(), 1);
    for part in [why, "  registers\n", "  last instructions\n", "stripped"] {
        assert!(whole.contains(part), "{part}: {whole}");
    }
    // The author's meaning of the code.
    fs::write(folder.path().join("codes.txt"), "9 = NoWitness\n").unwrap();
    let named = text(folder.path(), &[&verify[..], &["--error-codes", "codes.txt"]].concat(), 1);
    assert!(named.contains("exit code 9 (NoWitness), decided"), "{named}");
    // The diagnosis is disabled.
    let bare = text(folder.path(), &[&verify[..], &["--no-diagnosis"]].concat(), 1);
    assert!(!bare.contains("why:"), "{bare}");
}

#[test]
fn json_has_a_diagnosis_where_it_is_asked_for() {
    let folder = folder();
    let verify = ["verify", "--tx", "tx.json", "--json"];
    let bare = json(&text(folder.path(), &verify, 1));
    assert_eq!(bare.get("diagnosis"), None);
    let whole = json(&text(folder.path(), &[&verify[..], &["--explain"]].concat(), 1));
    assert_eq!(whole["outcome"], bare["outcome"]);
    let diagnosis = &whole["diagnosis"];
    let keys = "summary ending place stack stack_left_out instruction value branch system_call system_calls \
                system_calls_left_out registers source children javascript steps is_followed has_names has_lines is_shortened";
    for key in keys.split_whitespace() {
        assert!(diagnosis.get(key).is_some(), "{key}: {diagnosis}");
    }
    assert_eq!(diagnosis.as_object().unwrap().len(), keys.split_whitespace().count());
    assert_eq!(diagnosis["ending"]["exit_code"], 9);
    assert_eq!(diagnosis["system_call"], 0);
    let call = &diagnosis["system_calls"][0];
    assert_eq!((&call["name"], &call["result_name"]), (&"load_witness".into(), &"INDEX_OUT_OF_BOUND".into()));
}

#[test]
fn levels_tell_more_each() {
    let folder = folder();
    let verify = |level| text(folder.path(), &["verify", "--tx", "tx.json", level], 1);
    let [one, three, four] = ["-v", "-vvv", "-vvvv"].map(verify);
    let calls = "calls, with their cycles";
    assert!(!one.contains(calls) && three.contains(calls), "{three}");
    assert!(three.contains("[lock group #0]"), "{three}");
    assert!(four.contains("last instructions"), "{four}");
}

#[test]
fn a_run_alone_says_what_is_missing() {
    let folder = folder();
    let run = text(folder.path(), &["run", "lock"], 1);
    assert!(run.contains("why: InvalidEcall: system call 2074 (load_witness)"), "{run}");
    let run = text(folder.path(), &["run", "lock", "--explain"], 1);
    assert!(run.contains("all others need a transaction"), "{run}");
    // No script ran.
    fs::write(folder.path().join("text"), "no ELF").unwrap();
    let run = text(folder.path(), &["run", "text"], 1);
    assert!(run.contains("the file is no ELF that CKB-VM reads"), "{run}");
}

#[test]
fn tables_that_cannot_be_read_are_usage() {
    let folder = folder();
    fs::write(folder.path().join("codes.txt"), "nine\n").unwrap();
    let stderr = usage(folder.path(), &["verify", "--tx", "tx.json", "--error-codes", "codes.txt"]);
    assert!(stderr.contains("codes.txt: line 1: a line must be: code = meaning"), "{stderr}");
}
