//! Commands in a folder.

use std::{
    path::Path,
    process::{Command, Output},
};

pub(crate) fn antares(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_antares"));
    command.env("ANTARES_CACHE", "off").current_dir(folder).args(words).output().unwrap()
}

/// What a command prints that ends with `status`.
#[track_caller]
pub(crate) fn text(folder: &Path, words: &[&str], status: i32) -> String {
    let output = antares(folder, words);
    assert_eq!(output.status.code(), Some(status), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
