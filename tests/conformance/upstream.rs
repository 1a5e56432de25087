//! ckb-script's own test-suite: every test that passes on the stock machine passes on ours.

use antares_tests::upstream::{Counts, Machine, Suite};

/// Tests that the published suite has and that pass on the stock machine.
const UPSTREAM_TESTS: usize = 382;

#[track_caller]
fn check(machine: Machine, filter: &str, environment: &[(&str, &str)]) -> Counts {
    let suite = Suite::prepare(machine).unwrap();
    let counts = suite.run(filter, environment).unwrap();
    assert!(counts.failed().is_empty(), "{:?} failed:\n{}", counts.failed(), counts.output);
    println!("{machine:?} {environment:?}: {} tests passed", counts.tests.len());
    counts
}

#[test]
fn upstream_passes_on_the_stock_machine() {
    assert_eq!(check(Machine::Stock, "", &[]).tests.len(), UPSTREAM_TESTS);
}
