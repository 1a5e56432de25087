//! `antares size`: tables, a comparison of two builds, and a smaller script that runs the same.

use std::fs;

use crate::{
    command::{self, json, text, usage},
    elf,
};

/// A script that exits with 3, followed by 1,000 bytes.
fn folder() -> tempfile::TempDir {
    let script = elf::exits(3);
    let long = [&script[..], &[7; 1000]].concat();
    command::folder(&[("short", script), ("long", long)])
}

#[test]
fn what_is_never_loaded_is_reported_and_taken() {
    let folder = folder();
    let said = text(folder.path(), &["size", "long"], 0);
    assert!(said.starts_with("1,132 bytes: 1,132 CKBytes"), "{said}");
    assert!(said.contains("1,000   88.34  never loaded"), "{said}");
    // A function without a name extends to the end of its page, unlike the file.
    let functions = said.split("functions\n").nth(1).unwrap();
    let bytes: u64 = functions.split_whitespace().next().unwrap().replace(',', "").parse().unwrap();
    assert!(bytes <= 132, "{said}");
    let said = text(folder.path(), &["size", "long", "--shrink", "-o", "small"], 0);
    assert!(said.contains("132 bytes, 1,132 before: 1,000 CKBytes less"), "{said}");
    let [small, short] = ["small", "short"].map(|name| fs::read(folder.path().join(name)).unwrap());
    assert_eq!(small, short);
    let said = text(folder.path(), &["run", "small", "--no-diagnosis"], 1);
    assert!(said.starts_with("exit 3\n"), "{said}");
}

#[test]
fn two_builds_are_compared() {
    let folder = folder();
    let said = text(folder.path(), &["size", "long", "--before", "short"], 0);
    assert!(said.contains("| file | 132 | 1,132 | +1,000 |"), "{said}");
    assert!(said.contains("| loaded | 132 | 132 | +0 |"), "{said}");
    let json = json(&text(folder.path(), &["size", "long", "--json"], 0));
    let keys = "bytes loaded_bytes strippable_bytes padding_bytes sections functions files duplicates";
    for key in keys.split_whitespace() {
        assert!(json.get(key).is_some(), "{key}: {json}");
    }
}

#[test]
fn what_is_no_script_is_usage() {
    let folder = folder();
    fs::write(folder.path().join("text"), "text").unwrap();
    usage(folder.path(), &["size", "text"]);
    usage(folder.path(), &["size", "text", "--shrink", "-o", "small"]);
    assert!(!folder.path().join("small").exists());
}
