//! Scripts that always bail out of native code start in the interpreter after a few commands. `antares
//! verify` reports the interpreted programs and the reason.

use std::{path::Path, process::Command};

use serde_json::Value;
use tempfile::TempDir;

use crate::{
    command::{caching, ends_with, json, with_lock},
    elf,
};

/// A folder with the script `lock` and a transaction that uses it. The script takes over a million cycles and
/// stores below its code, which native code does not support.
fn folder() -> TempDir {
    // lui t0, 8; sd zero, 0(t0); lui t1, 146; addi t1, t1, -1; bnez t1, -4; addi a7, zero, 93; addi a0, zero,
    // 0; ecall.
    let code = [0x82b7, 0x2_b023, 0x9_2337, 0xfff3_0313, 0xfe03_1ee3, 0x05d0_0893, 0x513, 0x73_u32];
    with_lock(elf::of(&code))
}

#[test]
fn what_always_leaves_native_code_begins_in_the_interpreter() {
    let folder = folder();
    let run = |words: &[&str]| {
        // `--full` limits the test to one library: the baseline's has its own statistics.
        let words = [&["run", "lock", "--json", "--full"], words].concat();
        let (stdout, stderr) = ends_with(0, &mut caching(folder.path(), &words));
        let value = json(&stdout);
        let is_spared = value["restarted"].is_null();
        let tier = if is_spared { Value::Null } else { "full".into() };
        assert_eq!((&value["native_cycles"], &value["code_tier"]), (&0.into(), &tier), "{value}");
        assert_eq!(stderr.contains("leaves_early"), is_spared, "{stderr}");
        (is_spared, value["cycles"].clone())
    };
    let runs: Vec<(bool, Value)> = (0..4 + 2 * 8).map(|_| run(&[])).collect();
    assert!(runs.iter().all(|(_, cycles)| *cycles == runs[0].1));
    let tried: Vec<usize> = (0..runs.len()).filter(|run| !runs[*run].0).collect();
    assert_eq!(tried, [0, 1, 2, 3, 11, 19]);
    assert!(!run(&["--tier", "native"]).0 && !run(&["--no-cache"]).0);
}

#[test]
fn a_verification_says_what_it_interpreted_and_why() {
    let folder = folder();
    let verify = |words: &[&str]| {
        ends_with(0, &mut caching(folder.path(), &[&["verify", "--tx", "tx.json"], words].concat()))
    };
    let without = json(&verify(&["--json", "--tier", "interpreter"]).0);
    assert_eq!(without["interpreted"], Value::Array(Vec::new()));
    for run in 0..8 {
        let (stdout, stderr) = verify(&["--json", "--full"]);
        let (verdict, is_spared) = (json(&stdout), run >= 4);
        assert_eq!(verdict["cycles"], without["cycles"]);
        let restarted = if is_spared { Value::Null } else { "bad_address".into() };
        assert_eq!(verdict["groups"][0]["restarted"], restarted, "{verdict}");
        assert_eq!(stderr.contains("leaves_early"), is_spared, "{stderr}");
        assert_eq!(verdict["interpreted"].as_array().unwrap().len(), usize::from(is_spared));
        if is_spared {
            reported(&verdict["interpreted"][0], folder.path(), "leaves_early");
        }
    }
    let text = verify(&["--full"]).0;
    assert!(text.contains("\ninterpreted: ") && text.contains("… (152 bytes): leaves_early\n"), "{text}");
    let native = json(&verify(&["--json", "--full", "--tier", "native"]).0);
    assert_eq!(native["groups"][0]["restarted"], "bad_address");
}

/// Asserts that this is the lock.
#[track_caller]
fn reported(program: &Value, folder: &Path, why: &str) {
    let hash = Command::new("sha256sum").arg(folder.join("lock")).output().unwrap().stdout;
    assert_eq!(program["sha256"].as_str().unwrap().as_bytes(), &hash[..64]);
    assert_eq!((&program["loaded_at"], &program["size_bytes"]), (&Value::Null, &152.into()));
    let is_long = program["cycles"].as_u64() > Some(1_000_000);
    assert_eq!((is_long, &program["why"]), (true, &why.into()), "{program}");
}
