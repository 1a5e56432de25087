//! Compares the portable program with the published ckb-debugger: the one built here, or the one in
//! `ANTARES_FOREIGN` with its launcher: `wine64 ckb-debugger-portable.exe`.
#![allow(clippy::unwrap_used, reason = "a test")]

use goldens::{JAVASCRIPT, LINES, SCRIPTS, assert_goldens, examples, javascript};

#[path = "ckb_debugger/goldens.rs"]
#[allow(dead_code, reason = "ckb_debugger.rs uses all of it")]
mod goldens;

/// The program and its launcher.
fn program() -> Vec<String> {
    let foreign = std::env::var("ANTARES_FOREIGN").unwrap_or_default();
    let words: Vec<String> = foreign.split_whitespace().map(str::to_owned).collect();
    if words.is_empty() { vec![env!("CARGO_BIN_EXE_ckb-debugger-portable").to_owned()] } else { words }
}

#[track_caller]
fn assert_as_published(text: &str, folder: &std::path::Path) {
    let program = program();
    let program: Vec<&str> = program.iter().map(String::as_str).collect();
    assert_goldens(&program, text, folder);
}

#[test]
fn lines_and_statuses_are_those_of_the_published_program() {
    assert_as_published(LINES, examples().path());
}

#[test]
fn published_scripts_end_as_in_the_published_program() {
    assert_as_published(SCRIPTS, examples().path());
}

#[test]
fn javascript_is_built_and_run_with_the_same_bytes_and_cycles() {
    let Some(folder) = javascript() else { return };
    assert_as_published(JAVASCRIPT, folder.path());
}
