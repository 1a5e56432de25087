//! The page from a failing test to the fix: each of its commands, and the documented output.

use std::{fs, process::Command};

use crate::page;

/// Expected output of a command, selected by a part of it.
const TOLD: &[(&str, &str)] = &[
    (
        "verify --tx pays.json # status 1",
        "exit 5 | decided in check | a5 = 0, made in read_days | a3 = 280 | load_witness(index 0",
    ),
    (
        "--batch back.gdb",
        "$1 = 0 | Old value = 0\nNew value = 1000 | in note (day= | read_days () at ./vault.c:50 | $2 = 7",
    ),
    ("overspends.json # status 1", "a5 = 1000, made in read_limit | a3 = 1210"),
    ("--check", "nothing has changed"),
    ("--shrink", "608 bytes, 6,896 before: 6,288 CKBytes less"),
];

#[test]
fn the_story_is_true() {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir_all(place.path().join("examples/scripts")).unwrap();
    let mut copy = Command::new("cp");
    copy.arg("-r")
        .arg(page::root().join("examples/scripts/story"))
        .arg(place.path().join("examples/scripts"));
    assert!(copy.status().unwrap().success());
    drop(fs::remove_file(place.path().join("examples/scripts/story/vault")));
    let (mut folder, mut reported) = (place.path().to_owned(), 0);
    for (command, status) in page::commands("story.md") {
        let said = page::follow(&folder, &command, status);
        if command.ends_with("cd vault") {
            folder = folder.join("vault");
        }
        let line = format!("{command} # status {status}");
        for (part, parts) in TOLD.iter().filter(|(part, _)| line.contains(part)) {
            reported += 1;
            parts.split(" | ").for_each(|it| assert!(said.contains(it), "{part}: no {it:?} in\n{said}"));
        }
    }
    assert_eq!(reported, TOLD.len());
}
