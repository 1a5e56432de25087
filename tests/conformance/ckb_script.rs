//! ckb-script's own test suite: every test that passes on the stock machine passes on ours.

use std::thread;

use antares_tests::upstream::{Counts, Machine, Suite};

/// Number of tests in the published suite. All pass on the stock machine, as the binary `upstream` of this
/// crate shows.
const UPSTREAM_TESTS: usize = 382;

/// Tests that run scripts; the others test system calls on their own machines.
const SCRIPT_TESTS: usize = 282;

#[track_caller]
fn check(tier: &'static str, filter: &str, tests: usize) -> Counts {
    let suite = Suite::prepare(Machine::Ours(tier)).unwrap();
    let counts = suite.run(filter).unwrap();
    assert!(counts.failed().is_empty(), "{tier}: {:?} failed:\n{}", counts.failed(), counts.output);
    println!("{tier}: {} tests passed, {:#?}", counts.tests.len(), counts.shares);
    assert_eq!(counts.tests.len(), tests);
    counts
}

/// One test, because the runs share a build folder; its name has it begin among the first.
#[test]
fn upstream_passes_in_every_tier() {
    Suite::prepare(Machine::Ours("auto")).unwrap().build().unwrap();
    thread::scope(|scope| {
        let interpreted = scope.spawn(|| check("interpreter", "verify::", SCRIPT_TESTS));
        assert!(check("auto", "", UPSTREAM_TESTS).shares.native_cycles > 0);
        assert!(check("native", "verify::", SCRIPT_TESTS).shares.native_cycles > 0);
        assert_eq!(interpreted.join().unwrap().shares.native_cycles, 0);
    });
}
