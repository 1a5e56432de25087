//! The attack guests: each ends exactly as in `AsmMachine`.

use antares_abi::{CompileOptions, Isa};
use antares_tests::guests;

use crate::check::{check, script};

fn attacks() -> Vec<String> {
    let names = guests::guests().into_iter().map(|guest| guest.name);
    names.filter(|name| name.starts_with("attack-")).collect()
}

fn check_all(options: CompileOptions) {
    for name in attacks() {
        let equal = check(&name, &guests::bytes(&name).unwrap(), &[], options).unwrap();
        println!("{name}: {equal:?}");
    }
}

#[test]
fn attacks_end_alike_in_version_0() {
    check_all(script(0));
}

#[test]
fn attacks_end_alike_in_version_1() {
    check_all(script(1));
}

#[test]
fn attacks_end_alike_in_version_2() {
    check_all(script(2));
}

#[test]
fn attacks_end_alike_without_fusions() {
    check_all(CompileOptions { vm_version: 2, isa: Isa::IMC });
}

/// Expected ends of the most important attacks, to detect errors in the guests themselves.
#[test]
fn attacks_end_as_intended() {
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
    for (name, outcome) in expected {
        let equal = check(name, &guests::bytes(name).unwrap(), &[], script(2)).unwrap();
        assert_eq!(equal.outcome, outcome, "{name}");
    }
}
