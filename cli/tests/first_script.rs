//! The page for a first script: each of its commands, with the template in C and with the one in Rust.
#![allow(clippy::unwrap_used, reason = "a test")]
#![forbid(unsafe_code)]

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The commands of the page, each with the status that it shall end with.
fn commands() -> Vec<(String, i32)> {
    let page = fs::read_to_string(root().join("docs/first-script.md")).unwrap();
    let lines = page.lines().filter_map(|line| line.strip_prefix("$ "));
    let told = |line: &str| match line.split_once(" # status ") {
        Some((command, status)) => (command.to_owned(), status.parse().unwrap()),
        None => (line.to_owned(), 0),
    };
    lines.map(told).collect()
}

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
    let programs = Path::new(env!("CARGO_BIN_EXE_antares")).parent().unwrap();
    let path = format!("{}:{}", programs.display(), env::var("PATH").unwrap());
    let mut folder = place.path().to_owned();
    let mut commands = commands();
    assert!(commands.len() > 10, "{commands:?}");
    // What is built for the chain is no change.
    commands.push(("antares snapshot . --file snapshot.json --check".to_owned(), 0));
    for (command, status) in commands {
        let mut shell = Command::new("bash");
        shell.args(["-c", &command]).current_dir(&folder).env("PATH", &path).env("ANTARES_CACHE", "off");
        shell.env_remove("ANTARES_SERVER").env_remove("RUSTFLAGS");
        let output = shell.output().unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert_eq!(output.status.code(), Some(status), "{template}: {command}\n{said}");
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
