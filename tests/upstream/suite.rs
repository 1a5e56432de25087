//! ckb-script's own tests, in native code; one test runs those of scripts in the interpreter.
#![allow(warnings, clippy::all, reason = "most of it is not ours")]

mod hook;
mod store;

/// Part of `ckb-test-chain-utils`.
mod chain {
    include!(concat!(env!("OUT_DIR"), "/chain.rs"));
}

// Crates that the tests expect.
extern crate self as ckb_db;
extern crate self as ckb_db_schema;
extern crate self as ckb_store;
extern crate self as ckb_test_chain_utils;

pub use chain::*;
pub use store::*;

include!(concat!(env!("OUT_DIR"), "/src/lib.rs"));

/// Tests of ckb-script 1.2.1.
const TESTS: usize = 382;
/// Those that run scripts; the others test system calls on machines of their own.
const SCRIPT_TESTS: usize = 282;

#[test]
fn scripts_pass_in_the_interpreter() {
    let run = |words: &[&str]| {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        let output = command.args(words).env(hook::INTERPRETED, "1").output().unwrap();
        assert!(output.status.success(), "{}{}", output.stdout.escape_ascii(), output.stderr.escape_ascii());
        String::from_utf8(output.stdout).unwrap()
    };
    // This one too.
    assert_eq!(run(&["--list", "--format=terse"]).lines().count(), TESTS + 1);
    assert!(run(&["verify::"]).contains(&format!("test result: ok. {SCRIPT_TESTS} passed; 0 failed;")));
}
