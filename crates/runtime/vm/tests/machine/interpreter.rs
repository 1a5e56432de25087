//! The interpreter tier against a stock `AsmMachine`: outcome, cycles, debug output, pc, registers, memory.

use antares_vm::{Limits, Machine, Outcome, Report, RunScript, Tier, VmError};
use bytes::Bytes;

use crate::{
    guests::guest,
    oracle::{ROOMY, compare, request, script},
};

/// Runs `source` in all versions, twice on one machine, and compares each run with the oracle.
#[track_caller]
fn check_source(source: &str) {
    check_elf(&guest(source), &[], ROOMY);
}

#[track_caller]
fn check_elf(elf: &Bytes, args: &[Bytes], limits: Limits) -> Report {
    let mut machine = Machine::new().unwrap();
    let mut last = None;
    for (vm_version, isa) in [(0, 0), (1, 3), (2, 3), (2, 0), (1, 1), (2, 7), (0, 2)] {
        let script = RunScript { elf, args, vm_version, isa };
        let oracle = request(&script, limits.cycles_max);
        for _ in 0..2 {
            let report = machine.run(&script, &limits, Tier::Interpreter, None).unwrap();
            compare(&oracle, &machine, &report);
            assert_eq!((report.native_cycles, report.interpreted_cycles), (0, report.cycles));
            assert_eq!(report.restarted, None);
            last = Some(report);
        }
    }
    last.unwrap()
}

#[track_caller]
fn check_error(source: &str, expected: &'static str) {
    // ckb-vm decodes up to 16 instructions ahead, so some have to follow.
    let source = &format!("{source}\n .text\n li a7, 93\n ecall");
    let elf = guest(source);
    check_source(source);
    let report = Machine::new().unwrap().run(&script(&elf), &ROOMY, Tier::Interpreter, None).unwrap();
    let Outcome::Error { name, .. } = report.outcome else { panic!("{:?}", report.outcome) };
    assert_eq!(name, expected);
}

#[test]
fn exits() {
    check_source("li a0, 5\n li a7, 93\n ecall");
    check_source("li a0, 200\n li a7, 93\n ecall");
}

#[test]
fn computes_and_writes_memory() {
    check_source(
        "li t0, 100\n li t1, 1\n li t2, 0x200000
         1: mul t1, t1, t0\n xor t1, t1, t2\n sd t1, 0(t2)\n addi t2, t2, 8\n addi t0, t0, -1\n bnez t0, 1b
         divu a0, t1, t2\n li a7, 93\n ecall",
    );
    check_source("li t0, 12345\n clz a0, t0\n cpop t1, t0\n add a0, a0, t1\n li a7, 93\n ecall");
}

#[test]
fn prints_and_passes_arguments() {
    let source = "ld t0, 0(sp)\n ld t1, 8(sp)\n beqz t0, 1f\n mv a0, t1\n li a7, 2177\n ecall
                  1: la a0, text\n li a7, 2177\n ecall\n mv a0, t0\n li a7, 93\n ecall
                  .section .rodata\n text: .asciz \"héllo\"";
    check_source(source);
    let args = [Bytes::from_static(b"first"), Bytes::from_static(b""), Bytes::from_static(b"third")];
    let report = check_elf(&guest(source), &args, ROOMY);
    // The last pair, version 0 with MOP, is refused before the first instruction.
    assert_eq!(report.outcome, Outcome::Error { name: "InvalidVersion", detail: None });
}

#[test]
fn fails_like_ckb_vm() {
    check_error("li t0, 0x400000\n ld t1, 0(t0)", "MemOutOfBound");
    check_error("li t0, -8\n sd t1, 0(t0)", "MemOutOfBound");
    check_error("la t0, _start\n sd t1, 0(t0)", "MemWriteOnExecutablePage");
    check_error("li t0, 0x300000\n jr t0", "MemWriteOnExecutablePage");
    check_error("ld t0, -8(zero)\n .word 0", "InvalidInstruction");
    check_error("li a7, 4242\n ecall", "InvalidEcall");
    check_error("li a0, -1\n li a7, 2177\n ecall", "MemOutOfBound");
    check_error("la a0, 1f\n li a7, 2177\n ecall\n .data\n 1: .byte 97, 255, 98, 0", "External");
}

#[test]
fn cycle_limits_are_ckb_vm_s() {
    let elf = guest("1: addi t0, t0, 1\n li a7, 2177\n li a0, 0x200000\n ecall\n j 1b");
    for cycles_max in [0, 1, 3, 502, 503, 504, 505, 506, 507, 508, 5_000, u64::MAX - 1] {
        let cycles_max = if cycles_max > 10_000 { 1_000_000 } else { cycles_max };
        check_elf(&elf, &[], Limits { cycles_max, ..ROOMY });
    }
}

#[test]
fn broken_elfs_fail_like_ckb_vm() {
    let good = guest("li a7, 93\n ecall");
    for length in [0, 3, 16, 63, 64, 100, good.len() / 2] {
        check_elf(&good.slice(..length), &[], ROOMY);
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
        assert_eq!((&report.outcome, report.debug.len()), (&Outcome::Exit(2), lines));
        let left_out = 4 - lines as u64;
        let told = (report.debug_lines_left_out, report.debug_bytes_left_out);
        assert_eq!(told, (left_out, 6 * left_out));
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
    assert_eq!((report.outcome, report.debug.len()), (Outcome::CyclesExceeded, 65_536));
    assert!(
        report.debug_lines_left_out > 10_000 && report.debug_lines_left_out == report.debug_bytes_left_out
    );
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
