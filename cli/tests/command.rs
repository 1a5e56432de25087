//! Runs the command in a folder.

use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Child, Command, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

pub(crate) const ANTARES: &str = env!("CARGO_BIN_EXE_antares");

/// A transaction with one input, whose lock is the file `lock`, and an output with a missing type script.
pub(crate) fn transaction(hash_type: &str) -> String {
    include_str!("transaction.json").replace("HASH_TYPE", hash_type)
}

/// A folder with these files.
pub(crate) fn folder(files: &[(&str, Vec<u8>)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    files.iter().for_each(|(name, bytes)| fs::write(folder.path().join(name), bytes).unwrap());
    folder
}

/// A folder with the script `lock`, and the transaction that uses it.
pub(crate) fn with_lock(lock: Vec<u8>) -> TempDir {
    folder(&[("lock", lock), ("tx.json", transaction("data1").into())])
}

/// `antares` in `folder`, without a cache or server.
pub(crate) fn command(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(ANTARES);
    command.current_dir(folder).args(words).env("ANTARES_CACHE", "off").env_remove("ANTARES_SERVER");
    command
}

/// The same with a cache in `folder`, and without an interpreter that may end before native code is needed.
pub(crate) fn caching(folder: &Path, words: &[&str]) -> Command {
    let mut command = command(folder, words);
    command.env("XDG_CACHE_HOME", folder).env_remove("ANTARES_CACHE").env("ANTARES_HEAD_START_MS", "0");
    command
}

/// Starts a command and writes its standard input.
pub(crate) fn start(command: &mut Command, stdin: &[u8]) -> Child {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that rejects its arguments closes its input unread.
    let _ = child.stdin.take().unwrap().write_all(stdin);
    child
}

/// Exit status, standard output and standard error.
pub(crate) fn end(child: Child) -> (Option<i32>, String, String) {
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

pub(crate) fn run(command: &mut Command) -> (Option<i32>, String, String) {
    end(start(command, b""))
}

pub(crate) fn antares(folder: &Path, words: &[&str]) -> (Option<i32>, String, String) {
    run(&mut command(folder, words))
}

/// Standard output and standard error of a command that ends with `status`.
#[track_caller]
pub(crate) fn ends_with(status: i32, command: &mut Command) -> (String, String) {
    let (found, stdout, stderr) = run(command);
    assert_eq!(found, Some(status), "{stdout}{stderr}");
    (stdout, stderr)
}

/// Standard output of a command that ends with `status`.
#[track_caller]
pub(crate) fn text(folder: &Path, words: &[&str], status: i32) -> String {
    ends_with(status, &mut command(folder, words)).0
}

/// The errors of a command that rejects its arguments or its input.
#[track_caller]
pub(crate) fn usage(folder: &Path, words: &[&str]) -> String {
    ends_with(2, &mut command(folder, words)).1
}

#[track_caller]
pub(crate) fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}
