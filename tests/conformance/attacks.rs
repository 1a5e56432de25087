//! The attack guests: each ends exactly as in `AsmMachine`.

use std::collections::BTreeMap;

use antares_abi::CompileOptions;
use antares_tests::guests;

use crate::check::{check, script};

/// How each attack ends.
fn check_all(options: CompileOptions) -> BTreeMap<String, String> {
    let end = |name: String| {
        let equal = check(&name, &guests::bytes(&name).unwrap(), &[], options).unwrap();
        println!("{name}: {equal:?}");
        (name, equal.outcome)
    };
    let names = guests::guests().into_iter().map(|guest| guest.name);
    names.filter(|name| name.starts_with("attack-")).map(end).collect()
}

/// Versions 1 and 2 differ only around system calls that stop a VM; version 0 has no fusions.
#[test]
fn attacks_end_alike_in_version_0() {
    check_all(script(0));
}

/// Expected ends of the most important attacks, to detect errors in the guests themselves.
#[test]
fn attacks_end_alike_and_as_intended_in_version_2() {
    let expected = [
        ("attack-read-end", "MemOutOfBound"),
        ("attack-read-dead", "MemOutOfBound"),
        ("attack-read-straddle", "MemOutOfBound"),
        ("attack-read-negative-base", "Exit(0)"),
        ("attack-read-wrap", "MemOutOfBound"),
        ("attack-read-above47", "MemOutOfBound"),
        ("attack-write-negative", "MemOutOfBound"),
        ("attack-write-wrap", "MemOutOfBound"),
        ("attack-write-code", "MemWriteOnExecutablePage"),
        ("attack-write-code-same", "MemWriteOnExecutablePage"),
        ("attack-write-code-straddle", "MemWriteOnExecutablePage"),
        ("attack-write-constants", "Exit(7)"),
        ("attack-read-code", "Exit(0)"),
        ("attack-recursion", "Exit(0)"),
        ("attack-recursion-return", "CyclesExceeded"),
        ("attack-recursion-stack", "Exit(0)"),
        ("attack-recursion-overflow", "MemWriteOnExecutablePage"),
        ("attack-loop", "CyclesExceeded"),
        ("attack-loop-tail", "CyclesExceeded"),
        ("attack-jump-odd", "Exit(0)"),
        ("attack-jump-middle", "Exit(0)"),
        ("attack-jump-data", "MemWriteOnExecutablePage"),
        ("attack-jump-written", "MemWriteOnExecutablePage"),
        ("attack-jump-wrap", "MemOutOfBound"),
        ("attack-return-forged", "Exit(42)"),
        ("attack-return-twice", "Exit(3)"),
        ("attack-table-forged", "Exit(42)"),
        ("attack-fall-off", "InvalidInstruction"),
        ("attack-ecall-unknown", "InvalidEcall"),
        ("attack-names", "Exit(0)"),
    ];
    let ends = check_all(script(2));
    for (name, outcome) in expected {
        assert_eq!(ends[name], outcome, "{name}");
    }
}
