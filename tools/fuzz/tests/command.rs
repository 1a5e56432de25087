//! `antares fuzz`: a planted bug results in a transaction with a diagnosis, in a folder for later sessions.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Command, Output, Stdio},
};

use antares_pool::worker_path;
use serde_json::{Value, json};

fn antares(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(worker_path("antares").unwrap());
    command.env("ANTARES_CACHE", "off").current_dir(folder).args(args).output().unwrap()
}

#[track_caller]
fn report(folder: &Path, args: &[&str], status: i32) -> Value {
    let output = antares(folder, args);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(status), "{stderr}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn folder(case: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, is_right) in [("wrong", false), ("right", true)] {
        fs::write(folder.path().join(name), antares_guests::fuzzed(case, is_right).unwrap()).unwrap();
    }
    folder
}

const BEGIN: [&str; 8] =
    ["--witness", "0x504159310200", "--field", "witness.0", "--runs", "20000", "-o", "fuzz"];

#[test]
fn a_finding_is_a_transaction_with_its_diagnosis() {
    let folder = folder("LENGTH");
    let reported =
        report(folder.path(), &[&["fuzz", "wrong", "--findings", "1", "--json"], &BEGIN[..]].concat(), 1);
    let finding = &reported["findings"][0];
    let file = finding["file"].as_str().unwrap();
    assert!(finding["bytes"].as_u64().unwrap() <= finding["bytes_before"].as_u64().unwrap(), "{reported}");
    let verified = antares(folder.path(), &["verify", "--tx", file, "--no-diagnosis"]);
    assert_eq!(verified.status.code(), Some(1));
    let diagnosis = fs::read_to_string(folder.path().join(file).with_extension("txt")).unwrap();
    assert!(diagnosis.contains("fuzzed.c:") && diagnosis.contains("before: 0x504159310200"), "{diagnosis}");
}

#[test]
fn a_folder_is_gone_on_from_by_several_processes() {
    let folder = folder("LENGTH");
    let args = [&["fuzz", "right", "--jobs", "2", "--json"], &BEGIN[..]].concat();
    let first = report(folder.path(), &args, 0);
    let kept = fs::read_dir(folder.path().join("fuzz/corpus")).unwrap().count();
    assert_eq!((first["runs"].as_u64(), first["new_inputs"].as_u64()), (Some(20_000), Some(kept as u64)));
    // The inputs of the first session run first, so few runs suffice.
    let few = [&["fuzz", "right", "--json"], &BEGIN[..4], &["--runs", "100", "-o", "fuzz"]].concat();
    let again = report(folder.path(), &few, 0);
    assert!(again["edges"].as_u64() >= first["edges"].as_u64(), "{first} {again}");
    fs::write(folder.path().join("fuzz/corpus/damaged.json"), "{").unwrap();
    let output = antares(folder.path(), &few);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let is_left_out = stderr.contains("left out: ") && stderr.contains("damaged.json");
    assert!(output.status.success() && is_left_out, "{stderr}");
}

/// Ctrl-C reaches the whole process group of a terminal.
#[test]
fn an_interrupted_session_tells_what_there_is() {
    let folder = folder("MAC");
    let mut command = Command::new(worker_path("antares").unwrap());
    command.env("ANTARES_CACHE", "off").current_dir(folder.path()).process_group(0);
    command.args(["fuzz", "right", "--json", "-o", "fuzz", "--jobs", "2"]);
    let mut fuzzing = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut reported = BufReader::new(fuzzing.stderr.take().unwrap()).lines();
    assert!(reported.next().unwrap().unwrap().contains("as it is"));
    let group = format!("-{}", fuzzing.id());
    assert!(Command::new("kill").args(["-INT", "--", &group]).status().unwrap().success());
    let output = fuzzing.wait_with_output().unwrap();
    let rest: Vec<_> = reported.map(Result::unwrap).collect();
    assert_eq!(output.status.code(), Some(0), "{rest:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report["runs"].as_u64() > Some(0) && report["findings"] == json!([]), "{report}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let folder = folder("MAC");
    for (args, why) in [
        (&["fuzz", "right", "-o", "fuzz", "--field", "witness.7"][..], "has no witness.7"),
        (&["fuzz", "right", "-o", "fuzz", "--field", "witness"][..], "names no field"),
        (&["fuzz", "right", "-o", "fuzz", "--binding"][..], "not accepted as it is"),
    ] {
        let output = antares(folder.path(), args);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(why), "{stderr}");
    }
}
