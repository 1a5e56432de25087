//! Limits of the interpreter tier. `tests/conformance` compares it with a stock `AsmMachine`.

use antares_hosted::job::Omitted;
use antares_vm::{Limits, Machine, Outcome, RunScript, Tier, VmError};

use crate::{
    guests::guest,
    oracle::{ROOMY, script},
};

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
