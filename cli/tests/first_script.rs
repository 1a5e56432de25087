//! The page for a first script: each of its commands, with the template in C and with the one in Rust.
#![allow(clippy::unwrap_used, reason = "a test")]
#![forbid(unsafe_code)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

#[path = "scripts/page.rs"]
mod page;

use page::{commands, root};

/// Does what the page says, with one of the templates.
fn follow(template: &str) -> PathBuf {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir_all(place.path().join("examples/scripts")).unwrap();
    let from = root().join("examples/scripts").join(template);
    // By any name: the page says `c`.
    let copied =
        Command::new("cp").arg("-r").arg(&from).arg(place.path().join("examples/scripts/c")).status();
    assert!(copied.unwrap().success());
    for built in ["build", "target"] {
        drop(fs::remove_dir_all(place.path().join("examples/scripts/c").join(built)));
    }
    let mut folder = place.path().to_owned();
    let mut commands = commands("first-script.md");
    assert!(commands.len() > 10, "{commands:?}");
    // What is built for the chain is no change.
    commands.push(("antares snapshot . --file snapshot.json --check".to_owned(), 0));
    for (command, status) in commands {
        let said = page::follow(&folder, &command, status);
        if command.ends_with("cd lock") {
            folder = folder.join("lock");
        }
        if command.contains("errors.txt") {
            assert!(template != "c" || said.contains("lock.c:57:"), "{said}");
            assert!(said.contains("the witness shows something else"), "{template}: {said}");
            assert!(said.contains("unlock") || said.contains("main"), "no place in the source: {said}");
        }
    }
    let (deployed, built) = (folder.join("build/lock.small"), folder.join("build/lock"));
    let bytes = |path: &Path| fs::metadata(path).unwrap().len();
    assert!(bytes(&deployed) < bytes(&built));
    // Debug data would be most of it.
    assert!(bytes(&deployed) < 32_000, "{} bytes", bytes(&deployed));
    place.keep()
}

#[test]
fn each_source_is_built_again() {
    for (template, source) in
        [("c", "util.h"), ("rust", "src/util.rs"), ("rust", "src/deep/mod.rs"), ("rust", "Cargo.lock")]
    {
        let place = tempfile::tempdir().unwrap();
        let is_built = |command: &str| {
            let mut shell = Command::new("bash");
            shell.args(["-c", command]).current_dir(place.path()).status().unwrap().success()
        };
        let from = root().join("examples/scripts").join(template);
        assert!(is_built(&format!("cp -r {}/. . && mkdir -p build && touch build/lock", from.display())));
        assert!(is_built("make -q"), "{template}");
        let later = format!("mkdir -p src/deep && touch -d 'now + 1 hour' {source} && make -qs 2>/dev/null");
        assert!(!is_built(&later), "{template}: {source}");
    }
}

#[test]
fn a_first_script_in_c() {
    fs::remove_dir_all(follow("c")).unwrap();
}

#[test]
fn a_first_script_in_rust() {
    let rustc =
        Command::new("rustc").args(["--print", "target-libdir", "--target", TARGET]).output().unwrap();
    let libraries = String::from_utf8(rustc.stdout).unwrap();
    if !Path::new(libraries.trim()).exists() {
        eprintln!("skipped: rustup target add {TARGET}");
        return;
    }
    fs::remove_dir_all(follow("rust")).unwrap();
}

/// What the template is built for.
const TARGET: &str = "riscv64imac-unknown-none-elf";
