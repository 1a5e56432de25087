//! The page that goes from a failing test to the fix: each of its commands, and what it says they tell.
#![allow(clippy::unwrap_used, reason = "a test")]
#![forbid(unsafe_code)]

use std::{env, fs, path::Path, process::Command};

/// What a command tells, by a part of the command.
const TOLD: &[(&str, &[&str])] = &[
    (
        "verify --tx pays.json # status 1",
        &["exit 5", "decided in check", "a5 = 0, made in read_days", "a3 = 280", "load_witness(index 0"],
    ),
    (
        "--batch back.gdb",
        &[
            "$1 = 0",
            "Old value = 0\nNew value = 1000",
            "in note (day=",
            "read_days () at ./vault.c:50",
            "$2 = 7",
        ],
    ),
    ("overspends.json # status 1", &["a5 = 1000, made in read_limit", "a3 = 1210"]),
    ("--check", &["nothing has changed"]),
    ("--shrink", &["608 bytes, 6,896 before: 6,288 CKBytes less"]),
];

#[test]
fn the_story_is_true() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let place = tempfile::tempdir().unwrap();
    fs::create_dir_all(place.path().join("examples/scripts")).unwrap();
    let mut copy = Command::new("cp");
    copy.arg("-r").arg(root.join("examples/scripts/story")).arg(place.path().join("examples/scripts"));
    assert!(copy.status().unwrap().success());
    drop(fs::remove_file(place.path().join("examples/scripts/story/vault")));
    let programs = Path::new(env!("CARGO_BIN_EXE_antares")).parent().unwrap();
    let path = format!("{}:{}", programs.display(), env::var("PATH").unwrap());
    let page = fs::read_to_string(root.join("docs/story.md")).unwrap();
    let (mut folder, mut told) = (place.path().to_owned(), 0);
    for line in page.lines().filter_map(|line| line.strip_prefix("$ ")) {
        let (command, status) = match line.split_once(" # status ") {
            Some((command, status)) => (command, status.parse().unwrap()),
            None => (line, 0),
        };
        let mut shell = Command::new("bash");
        shell.args(["-c", command]).current_dir(&folder).env("PATH", &path).env("ANTARES_CACHE", "off");
        let output = shell.env_remove("ANTARES_SERVER").output().unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert_eq!(output.status.code(), Some(status), "{line}\n{said}");
        if command.ends_with("cd vault") {
            folder = folder.join("vault");
        }
        for (part, parts) in TOLD.iter().filter(|(part, _)| line.contains(part)) {
            told += 1;
            parts.iter().for_each(|it| assert!(said.contains(it), "{part}: no {it:?} in\n{said}"));
        }
    }
    assert_eq!(told, TOLD.len());
}
