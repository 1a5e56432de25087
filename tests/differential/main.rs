//! Random programs on the compiled tier and on the interpreter tier against ckb-vm's `AsmMachine`.
//!
//! Long runs are the binary `differential` of this crate.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]
#![forbid(unsafe_code)]

use antares_tests::differential::{Campaign, disassembly, reduce};
use antares_vm::Machine;

#[track_caller]
fn check(seed: u64, programs: u64, native: bool) {
    let campaign = Campaign { seed, programs, batch: 20, native, short: false };
    let (tally, failure) = campaign.run(|_| ()).unwrap();
    println!("seed {seed}: {tally:?}");
    if let Some(failure) = failure {
        let reduced = reduce(&mut Machine::new().unwrap(), &failure).unwrap();
        let shown = reduced.as_ref().map_or_else(|| "not reduced".to_owned(), disassembly);
        panic!("batch {:#x}, program {}: {}\n{shown}", failure.seed, failure.index, failure.difference);
    }
    // A generator whose programs mostly leave native code would test the interpreter against itself.
    assert!(!native || tally.native * 3 > programs, "only {} of {programs} ran natively", tally.native);
}

#[test]
fn native_programs_of_seed_1() {
    check(1, 500, true);
}

#[test]
fn native_programs_of_seed_2() {
    check(2, 500, true);
}

#[test]
fn native_programs_of_seed_3() {
    check(3, 500, true);
}

#[test]
fn native_programs_of_seed_4() {
    check(4, 500, true);
}

#[test]
fn interpreted_programs() {
    check(5, 1000, false);
}
