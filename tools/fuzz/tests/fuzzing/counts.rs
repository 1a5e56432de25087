//! Instrumented native code behaves like other native code, and counts like the interpreter.

use antares_fuzz::job::Invariants;
use antares_fuzz::{Executor, FuzzInput, Machines, Ran};
use antares_transaction::Mock;

use crate::campaign::{BITS, as_lock, interpreter, job, native};

/// Maximum counters that only native code counts.
const ADDED_MAX: usize = 4;

/// The result of `mock` on `machines`, and the counters.
fn run(mock: &Mock, elf: &[u8], machines: Machines) -> (Ran, Vec<u8>) {
    let mut job = job(mock, &[elf], &["witness.0"], Invariants::default());
    job.cycles_max = 200_000_000;
    let executor = Executor::new(&job, &job.document, machines).unwrap();
    let ran = executor.run(&FuzzInput(vec![executor.given().0[0].clone()])).unwrap();
    let mut counters = Vec::new();
    executor.take_counters(|counted| counters = counted.to_vec());
    (ran, counters)
}

fn assert_same(name: &str, elf: &[u8], witness: &[u8]) {
    let mock = as_lock(elf, b"args", witness);
    let (native, counted) = run(&mock, elf, native(&[elf]));
    let (interpreted, expected) = run(&mock, elf, interpreter());
    assert!(native.is_native, "{name}: {native:?}");
    assert_eq!((&native.end, native.cycles), (&interpreted.end, interpreted.cycles), "{name}");
    assert_eq!(counted.len(), 1 << BITS);
    let differ: Vec<_> = (0..counted.len()).filter(|at| counted[*at] != expected[*at]).collect();
    let reported: Vec<_> = differ.iter().map(|at| (*at, counted[*at], expected[*at])).collect();
    // Where a pass adds a comparison to a block of the guest's, native code counts that, too.
    let is_added = |at: &usize| expected[*at] == 0;
    assert!(differ.iter().all(is_added), "{name}: (counter, native, interpreted) {reported:?}");
    assert!(differ.len() <= ADDED_MAX, "{name}: (counter, native, interpreted) {reported:?}");
    assert!(counted.iter().any(|count| *count > 0), "{name} went nowhere");
}

#[test]
fn native_code_counts_what_the_interpreter_counts() {
    for case in ["LENGTH", "AMOUNTS", "MAC"] {
        assert_same(case, &antares_guests::fuzzed(case, true).unwrap(), b"PAY1\x02\0ab");
    }
    for name in ["blake2b", "lz4", "keccak", "sort", "sha256"] {
        assert_same(name, &antares_guests::bytes(name).unwrap(), b"w");
    }
}
