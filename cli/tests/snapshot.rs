//! `antares snapshot`: a file under version control, and the output of a check.

use std::fs;

use serde_json::Value;

use crate::{
    command::{json, text, transaction, usage},
    elf,
};

/// A script that loops `steps` times and exits with the number of its arguments.
fn script(steps: usize) -> Vec<u8> {
    script_with(steps, 0x0001_3503)
}

/// The same, but `result` gives the exit code.
fn script_with(steps: usize, result: u32) -> Vec<u8> {
    let code: Vec<u32> = std::iter::repeat_n(0x13, steps).chain([result, 0x05d0_0893, 0x73]).collect();
    elf::of(&code)
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir_all(path("all/deep")).unwrap();
    fs::create_dir_all(path("all/node_modules")).unwrap();
    fs::write(path("all/node_modules/lock"), script(1)).unwrap();
    fs::write(path("all/lock"), script(100)).unwrap();
    fs::write(path("all/deep/two"), script(1000)).unwrap();
    fs::write(path("all/deep/two.args"), "one\ntwo words\n").unwrap();
    fs::write(path("all/tx.json"), transaction("data1")).unwrap();
    fs::write(path("all/other.json"), "{}").unwrap();
    fs::write(path("all/.hidden"), script(1)).unwrap();
    folder
}

#[test]
fn a_snapshot_holds_until_something_changes() {
    let folder = folder();
    let said = text(folder.path(), &["snapshot", "all"], 0);
    assert!(said.contains("deep/two: exit 2, "), "{said}");
    assert!(said.contains("3 entries"), "{said}");
    let file = folder.path().join("all/antares-snapshot.json");
    let first = fs::read_to_string(&file).unwrap();
    let value = json(&first);
    assert_eq!(value["entries"]["tx.json"]["ending"], "accepted");
    assert_eq!(value["entries"]["lock"]["ending"], "exit 0");
    assert_eq!(value["entries"]["lock"]["size_bytes"], script(100).len());
    // The result is reproducible bit for bit.
    assert_eq!(text(folder.path(), &["snapshot", "all", "--check"], 0), "3 entries, nothing has changed\n");
    text(folder.path(), &["snapshot", "all"], 0);
    assert_eq!(fs::read_to_string(&file).unwrap(), first);
    // A script that takes four more instructions.
    fs::write(folder.path().join("all/deep/two"), script(1004)).unwrap();
    let said = text(folder.path(), &["snapshot", "all", "--check"], 1);
    assert!(said.contains("| deep/two: cycles | ") && said.contains(" | +4 (+0."), "{said}");
    assert!(said.contains("| deep/two: bytes | ") && said.contains(" | +16 (+0."), "{said}");
    assert!(said.contains("&emsp;fn_0x10078"), "{said}");
    assert!(!said.contains("lock"), "{said}");
    text(folder.path(), &["snapshot", "all", "--check", "--tolerance", "0.5%"], 0);
    assert_eq!(fs::read_to_string(&file).unwrap(), first, "a check writes nothing");
}

#[test]
fn other_endings_and_other_files_are_changes_whatever_the_tolerance() {
    let folder = folder();
    text(folder.path(), &["snapshot", "all", "--file", "figures.json"], 0);
    let check = ["snapshot", "all", "--file", "figures.json", "--check", "--tolerance", "99%"];
    text(folder.path(), &check, 0);
    fs::write(folder.path().join("all/deep/two.args"), "one\n").unwrap();
    fs::rename(folder.path().join("all/tx.json"), folder.path().join("all/ty.json")).unwrap();
    let said = text(folder.path(), &check, 1);
    for part in [
        "| deep/two: ending | exit 2 | exit 1 | |",
        "| tx.json: cycles | ",
        " | gone |",
        "| ty.json: cycles | - | ",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let json = json(&text(folder.path(), &[&check[..], &["--json"]].concat(), 1));
    assert_eq!(json["changed"].as_array().unwrap().len(), 3);
    assert_eq!(json["changed"][2]["before"], Value::Null);
}

#[test]
fn a_failing_transaction_keeps_its_ending_over_builds() {
    let folder = folder();
    // Twice the code, and another hash. It exits with 1: a lock has no arguments, but this one loads a word
    // of its stack.
    let fails = |steps| script_with(steps, 0x0010_0513);
    fs::write(folder.path().join("all/lock"), fails(100)).unwrap();
    text(folder.path(), &["snapshot", "all"], 0);
    fs::write(folder.path().join("all/lock"), fails(101)).unwrap();
    let said = text(folder.path(), &["snapshot", "all", "--check"], 1);
    assert!(said.contains("| tx.json: cycles | ") && !said.contains("ending"), "{said}");
}

#[test]
fn git_and_the_file_say_what_is_kept() {
    let folder = folder();
    let path = |name: &str| folder.path().join("all").join(name);
    for built in ["target/one", "build/two", "build/three"] {
        fs::create_dir_all(path(built).parent().unwrap()).unwrap();
        fs::write(path(built), script(1)).unwrap();
    }
    // Outside a work tree: all but cargo's folder.
    let said = text(folder.path(), &["snapshot", "all"], 0);
    assert!(said.contains("5 entries") && !said.contains("target"), "{said}");
    let git = std::process::Command::new("git").args(["init", "--quiet"]).arg(path("")).status();
    assert!(git.unwrap().success());
    fs::write(path(".gitignore"), "/build\n").unwrap();
    let file = path("antares-snapshot.json");
    let mut kept: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert!(kept["entries"].as_object_mut().unwrap().remove("build/three").is_some());
    fs::write(&file, kept.to_string()).unwrap();
    assert_eq!(text(folder.path(), &["snapshot", "all", "--check"], 0), "4 entries, nothing has changed\n");
    // An explicitly named folder is included although git ignores it.
    assert!(text(folder.path(), &["snapshot", "all/build"], 0).contains("2 entries"));
}

#[test]
fn what_is_no_snapshot_is_usage() {
    let folder = folder();
    for (content, word) in [("{", "is no snapshot"), ("{\"version\":2,\"entries\":{}}", "has version 2")] {
        fs::write(folder.path().join("figures.json"), content).unwrap();
        let said = usage(folder.path(), &["snapshot", "all", "--file", "figures.json", "--check"]);
        assert!(said.contains(word), "{said}");
    }
    fs::create_dir(folder.path().join("none")).unwrap();
    let said = usage(folder.path(), &["snapshot", "none"]);
    assert!(said.contains("no scripts and no transactions"), "{said}");
}
