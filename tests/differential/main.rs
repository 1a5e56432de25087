//! Random programs in the compiled and interpreter tiers, compared with ckb-vm's `AsmMachine`.
//!
//! The binary `differential` of this crate does long runs.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]
#![forbid(unsafe_code)]

use std::thread;

use antares_abi::CodeTier;
use antares_tests::{
    differential::{Campaign, Choice, Tally, disassembly, reduce},
    generate::Kind,
};
use antares_vm::Machine;

#[track_caller]
fn check(campaign: Campaign) -> Tally {
    let seed = campaign.seed;
    let jobs = thread::available_parallelism().map_or(1, usize::from);
    let (tally, failure) = campaign.run(jobs, |_| ()).unwrap();
    println!("seed {seed}: {tally}");
    if let Some(failure) = failure {
        let reduced = reduce(&mut Machine::new().unwrap(), &failure).unwrap();
        let shown = reduced.as_ref().map_or_else(|| "not reduced".to_owned(), disassembly);
        panic!(
            "batch {:#x} of {}, program {}: {}\n{shown}",
            failure.seed,
            failure.batch.choice.name(),
            failure.index,
            failure.difference
        );
    }
    tally
}

#[test]
fn compiled_programs_are_equal() {
    check_compiled(1, 10_000, CodeTier::Full);
}

#[test]
fn programs_of_the_baseline_are_equal() {
    check_compiled(2, 20_000, CodeTier::Baseline);
}

/// Batches for which LLVM once emitted code that the check of machine code refused. Examples are a table's
/// address computed twice, a vector element by index, and a partly known index. For a 128-bit division, LLVM
/// called a missing function. In another one `sp` moves in every iteration, which exhausted the verifier's
/// budget for a function.
#[test]
fn libraries_that_were_refused_once_are_accepted() {
    let seeds = [
        0xbebb_152b_b0eb_3ed6,
        0x20ed_1dc5_aeac_82d0,
        0xb2c6_b205_1055_858d,
        0x261d_777c_a010_e370,
        0x47f1_a429_7e45_5206,
        0x7d0a_a7f0_b20d_22bf,
    ];
    seeds.into_iter().for_each(|seed| check_batch(seed, None));
}

#[track_caller]
fn check_batch(seed: u64, only: Option<Choice>) {
    let campaign = Campaign { seed: 1, programs: 1, native: Some(CodeTier::Full), only };
    let mut tally = Tally::default();
    let failure = campaign.batch(&mut Machine::new().unwrap(), seed, &mut tally).unwrap();
    assert!(failure.is_none(), "batch {seed:#x}: {tally}");
}

/// Batches with a loop that stores through one pointer in two widths, which LLVM's vectorizer reordered, and
/// with a carry that was not counted as written.
#[test]
fn programs_that_differed_once_are_equal() {
    for (kind, seed) in [(Kind::Counted, 0xa18c_d0bc_4b77_689c), (Kind::Short, 0x4051_0f79_5e97_8463)] {
        check_batch(seed, Some(Choice::Generated(kind)));
    }
}

fn check_compiled(seed: u64, programs: u64, tier: CodeTier) {
    let tally = check(Campaign { seed, programs, native: Some(tier), only: None });
    // A generator whose programs mostly bail out would compare the interpreter with itself. Mutants are
    // exempt: most end at the first system call that only transactions have.
    for (name, kind) in tally.kinds.iter().filter(|(name, _)| *name != "mutant") {
        assert!(
            kind.native * 5 > kind.programs,
            "{name}: only {} of {} natively",
            kind.native,
            kind.programs
        );
    }
}

#[test]
fn interpreted_programs_are_equal() {
    check(Campaign { seed: 5, programs: 1000, native: None, only: None });
}

/// In some of these programs `sp` moves a little in each pass of a loop, for thousands of passes: moved
/// checks must still be proved.
#[test]
fn checks_are_proved_where_sp_moves_in_small_steps() {
    let only = Some(Choice::Generated(Kind::Structured));
    check(Campaign { seed: 77, programs: 400, native: Some(CodeTier::Baseline), only });
}
