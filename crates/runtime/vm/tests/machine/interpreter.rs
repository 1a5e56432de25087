//! The interpreter tier against a stock `AsmMachine`: outcome, cycles, debug output, pc, registers, memory.

use antares_hosted::job::Omitted;
use antares_vm::{Limits, Machine, Outcome, RunScript, Tier, VmError};
use bytes::Bytes;

use crate::{
    guests::guest,
    oracle::{ROOMY, compare, request, script},
};

/// Runs `elf` in all versions, twice on one machine, and compares each run with the oracle.
#[track_caller]
fn check(elf: &Bytes, limits: Limits) {
    let mut machine = Machine::new().unwrap();
    for (vm_version, isa) in [(0, 0), (1, 3), (2, 3), (2, 0), (1, 1), (2, 7), (0, 2)] {
        let script = RunScript { elf, args: &[], vm_version, isa };
        let oracle = request(&script, limits.cycles_max);
        for _ in 0..2 {
            let report = machine.run(&script, &limits, Tier::Interpreter, None).unwrap();
            compare(&oracle, &machine, &report);
            assert_eq!((report.native_cycles, report.interpreted_cycles), (0, report.cycles));
            assert_eq!(report.restarted, None);
        }
    }
}

#[test]
fn cycle_limits_are_ckb_vm_s() {
    let elf = guest("1: addi t0, t0, 1\n li a7, 2177\n li a0, 0x200000\n ecall\n j 1b");
    for cycles_max in [0, 1, 3, 502, 503, 504, 505, 506, 507, 508, 5_000, u64::MAX - 1] {
        let cycles_max = if cycles_max > 10_000 { 1_000_000 } else { cycles_max };
        check(&elf, Limits { cycles_max, ..ROOMY });
    }
}

#[test]
fn broken_elfs_fail_like_ckb_vm() {
    let good = guest("li a7, 93\n ecall");
    for length in [0, 3, 16, 63, 64, 100, good.len() / 2] {
        check(&good.slice(..length), ROOMY);
    }
    let mut machine = Machine::new().unwrap();
    // Every field of the ELF header and of the program headers, with at least one of its bytes.
    for index in (0..400).step_by(2) {
        let mut bytes = good.to_vec();
        bytes[index] ^= 0xff;
        let elf = Bytes::from(bytes);
        let script = script(&elf);
        let report = machine.run(&script, &ROOMY, Tier::Interpreter, None).unwrap();
        compare(&request(&script, ROOMY.cycles_max), &machine, &report);
    }
}

#[test]
fn debug_output_has_a_limit() {
    let elf = guest(
        "la a0, text\n li a7, 2177\n ecall\n ecall\n ecall\n ecall\n li a0, 2\n li a7, 93\n ecall\n .section .rodata\n text: .asciz \"12345\"",
    );
    let mut machine = Machine::new().unwrap();
    for (debug_bytes_max, lines) in [(0, 0), (5, 0), (6, 1), (17, 2), (18, 3)] {
        let limits = Limits { debug_bytes_max, ..ROOMY };
        let report = machine.run(&script(&elf), &limits, Tier::Interpreter, None).unwrap();
        assert_eq!((&report.outcome, report.debug.count()), (&Outcome::Exit(2), lines));
        let left_out = 4 - lines as u64;
        assert_eq!(report.debug.omitted(), Omitted { lines: left_out, bytes: 6 * left_out });
        let mut oracle = request(&script(&elf), limits.cycles_max);
        oracle.debug.truncate(lines);
        compare(&oracle, &machine, &report);
    }
}

#[test]
fn lines_have_a_limit_of_their_own() {
    let elf = guest("li a0, 0x200000\n li a7, 2177\n 1: ecall\n j 1b");
    let limits = Limits { cycles_max: 40_000_000, debug_bytes_max: u64::MAX };
    let report = Machine::new().unwrap().run(&script(&elf), &limits, Tier::Interpreter, None).unwrap();
    assert_eq!((report.outcome, report.debug.count()), (Outcome::CyclesExceeded, 65_536));
    let Omitted { lines, bytes } = report.debug.omitted();
    assert!(lines > 10_000 && lines == bytes);
}

#[test]
fn senseless_requests_are_refused() {
    let elf = guest("li a7, 93\n ecall");
    let mut machine = Machine::new().unwrap();
    let mut run = |vm_version, isa| {
        let script = RunScript { elf: &elf, args: &[], vm_version, isa };
        machine.run(&script, &ROOMY, Tier::Interpreter, None)
    };
    assert!(matches!(run(3, 0), Err(VmError::VmVersion(3))));
    assert!(matches!(run(2, 8), Err(VmError::Isa(8))));
}
