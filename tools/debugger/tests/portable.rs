//! Compares the portable program with the published ckb-debugger: the one built here, or the one in
//! `ANTARES_FOREIGN` with its launcher: `wine64 ckb-debugger-portable.exe`.
#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "ckb_debugger/goldens.rs"]
#[allow(dead_code, reason = "ckb_debugger.rs uses all of it")]
mod goldens;

#[test]
fn output_and_statuses_are_those_of_the_published_program() {
    let foreign = std::env::var("ANTARES_FOREIGN").unwrap_or_default();
    let words: Vec<_> = foreign.split_whitespace().collect();
    goldens::assert_as_published(if words.is_empty() {
        &[env!("CARGO_BIN_EXE_ckb-debugger-portable")]
    } else {
        &words
    });
}
