//! Debug output beyond the limit is left out and counted, and takes no verdict away, in whichever tier.
#![allow(clippy::unwrap_used, reason = "a test")]
#![forbid(unsafe_code)]

#[path = "scripts/elf.rs"]
mod elf;

use std::{fs, path::Path, process::Command};

use serde_json::Value;

/// What `antares` prints as JSON of a command that ends well.
#[track_caller]
fn antares(folder: &Path, words: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_antares"));
    command.current_dir(folder).args(words).args(["--json", "--no-cache"]).env("XDG_CACHE_HOME", folder);
    let output = command.env_remove("ANTARES_CACHE").env_remove("ANTARES_SERVER").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_script_that_writes_too_much_has_its_verdict() {
    // lui a0, 0x200; lui a7, 1; addi a7, a7, -1919; lui t1, 17; ecall; addi t1, t1, -1; bnez t1, -8; addi a7,
    // zero, 93; addi a0, zero, 0; ecall: 69,632 empty lines.
    let code = [
        0x20_0537,
        0x18b7,
        0x8818_8893,
        0x1_1337,
        0x73,
        0xfff3_0313,
        0xfe03_1ce3,
        0x05d0_0893,
        0x513,
        0x73_u32,
    ];
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("lock"), elf::of(&code)).unwrap();
    let transaction = include_str!("transaction.json").replace("HASH_TYPE", "data1");
    fs::write(folder.path().join("tx.json"), transaction).unwrap();
    let told = |value: &Value| {
        let number = |key: &str| value[key].as_u64().unwrap();
        let left_out = (number("debug_lines_left_out"), number("debug_bytes_left_out"));
        assert_eq!((value["debug"].as_array().unwrap().len(), left_out), (65_536, (4_096, 4_096)));
        assert_eq!((&value["exit_code"], &value["restarted"]), (&0.into(), &Value::Null));
        number("cycles")
    };
    let run = |tier| told(&antares(folder.path(), &["run", "lock", "--vm-version", "1", "--tier", tier]));
    let verify = |tier| {
        let verdict = antares(folder.path(), &["verify", "--tx", "tx.json", "--tier", tier]);
        assert_eq!(verdict["outcome"], "ok");
        told(&verdict["groups"][0])
    };
    let cycles = run("native");
    assert_eq!([cycles, verify("native")], [run("interpreter"), verify("interpreter")]);
}
