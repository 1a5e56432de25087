//! The contract of `antares verify` in docs/cli.md: forms, JSON keys, exit statuses, with the real command
//! and real workers (`cargo build --workspace` builds them; `make test` does so first).

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::{
    command::{self, command, ends_with, transaction},
    elf,
};

/// A folder with a lock script that exits with `code`, and the transaction that uses it.
fn folder(code: u8, hash_type: &str) -> (TempDir, PathBuf) {
    let files = [("lock", elf::exits(code)), ("tx.json", transaction(hash_type).into())];
    let folder = command::folder(&files);
    let path = folder.path().join("tx.json");
    (folder, path)
}

/// Output of a verification that ends with `status`, with a head start of this many milliseconds for the
/// interpreter.
#[track_caller]
fn verify(path: &PathBuf, args: &[&str], head_start: &str, status: i32) -> (String, String) {
    let mut command = command(Path::new("."), &[&["verify"], args].concat());
    ends_with(status, command.env("ANTARES_HEAD_START_MS", head_start).arg("--tx").arg(path))
}

/// The JSON of a verification that ends with `status`.
#[track_caller]
fn json(path: &PathBuf, args: &[&str], status: i32) -> Value {
    let (text, _) = verify(path, &[args, &["--json"]].concat(), "0", status);
    assert!(text.ends_with("}\n") && text.lines().count() == 1, "{text}");
    command::json(&text)
}

#[test]
fn a_transaction_is_accepted_in_each_tier() {
    let (_folder, path) = folder(0, "data1");
    for tier in ["interpreter", "native", "auto"] {
        let verdict = json(&path, &["--tier", tier], 0);
        assert_eq!((&verdict["outcome"], &verdict["error"]), (&"ok".into(), &Value::Null));
        let group = &verdict["groups"][0];
        assert_eq!(group["exit_code"], 0);
        assert_eq!(verdict["cycles"], group["cycles"]);
        let (native, interpreted) = (&group["native_cycles"], &group["interpreted_cycles"]);
        let is_native = tier != "interpreter";
        assert!((native != 0) == is_native && (interpreted != 0) != is_native, "{group}");
    }
}

#[test]
fn a_head_start_tells_what_workers_tell() {
    const MINUTE: &str = "60000";
    for (status, args) in [
        (0, &[][..]),
        (0, &["--group", "lock", "--cell", "input.0"]),
        (1, &["--max-cycles", "10"]),
        (1, &["--script-version", "0"]),
    ] {
        let (_folder, path) = folder(0, "data1");
        let args = [&["--json", "--no-diagnosis"], args].concat();
        let reported =
            |tier, head_start| verify(&path, &[&args[..], &["--tier", tier]].concat(), head_start, status).0;
        let interpreted = reported("interpreter", "0");
        for tier in ["auto", "interpreter"] {
            assert_eq!(reported(tier, MINUTE), interpreted);
        }
        // This test requires native code.
        assert!(reported("native", MINUTE) != interpreted || status == 1, "nothing was native");
    }
}

#[test]
fn a_script_that_does_not_accept_it_fails_the_transaction() {
    let (_folder, path) = folder(5, "data1");
    let verdict = json(&path, &["--group", "lock", "--cell", "input.0"], 1);
    let (outcome, group) = (&verdict["outcome"], &verdict["groups"][0]);
    assert_eq!((outcome, &group["exit_code"]), (&"failed".into(), &5.into()));
    let source = (&group["error"]["kind"], &group["error"]["source"]);
    assert_eq!(source, (&"ValidationFailure".into(), &"Inputs[0].Lock".into()));
    let text = verdict["error"].as_str().unwrap();
    let failure = "TransactionScriptError { source: Inputs[0].Lock, cause: ValidationFailure";
    assert!(text.starts_with(failure), "{text}");
    let limited = json(&path, &["--max-cycles", "10"], 1);
    assert_eq!(limited["groups"][0]["error"]["kind"], "ExceededMaximumCycles");
}

#[test]
fn a_refusal_with_json_takes_one_run() {
    let (_folder, path) = folder(9, "data1");
    // The first run needs no worker; a second one would fail to start.
    let verify = |args: &[&str], status| {
        let mut command = command(path.parent().unwrap(), &["verify", "--tx", "tx.json"]);
        command.env("ANTARES_HEAD_START_MS", "60000").env("ANTARES_ALLOW_DEGRADED", "moat");
        ends_with(status, command.args(args))
    };
    let (stdout, stderr) = verify(&["--json"], 1);
    assert!(stdout.contains("\"exit_code\":9") && stderr.is_empty(), "{stderr}");
    // The verdict is printed before the diagnosis.
    let (stdout, stderr) = verify(&[], 2);
    assert!(stdout.contains("exit 9") && stderr.contains("there is no layer"), "{stdout}{stderr}");
}

#[test]
fn the_script_version_is_what_the_rules_allow() {
    let (_folder, path) = folder(0, "data1");
    let old = json(&path, &["--script-version", "0", "--tier", "interpreter"], 1);
    assert_eq!(old["groups"][0]["error"]["kind"], "InvalidVmVersion");
    let epoch = |epoch| ["--mainnet-epoch", epoch, "--tier", "interpreter"];
    json(&path, &epoch("5413"), 1);
    json(&path, &epoch("5414"), 0);
}

#[test]
fn mistakes_have_status_2_and_a_place() {
    let (folder, path) = folder(0, "data9999");
    let refused = |path: &PathBuf, args: &[&str], expected: &str| {
        let (stdout, stderr) = verify(path, &[args, &["--json"]].concat(), "0", 2);
        assert!(stdout.is_empty() && stderr.contains(expected), "{stderr}");
    };
    for tier in ["interpreter", "auto"] {
        refused(&path, &["--tier", tier], "mock_info.inputs[0].output.lock.hash_type (line 5, column ");
    }
    fs::remove_file(folder.path().join("lock")).unwrap();
    refused(&path, &[], "tx.json: line 5, column 62: cannot read ");
    refused(&folder.path().join("none"), &[], "cannot read ");
    refused(&path, &["--group", "lock"], "--cell");
    refused(&path, &["--group", "lock", "--cell", "inputs.0"], "must be input.N or output.N");
    let (_other, path) = self::folder(0, "data1");
    refused(&path, &["--group", "type", "--cell", "input.0"], "input.0 has no type script that runs");
}
