//! The interpreter as the oracle of native code. `tests/conformance` compares it with ckb-vm's own machine.

use antares_vm::{Limits, Machine, Report, RunScript, Tier};
use bytes::Bytes;

/// Limits that small guests never reach.
pub(crate) const ROOMY: Limits = Limits { cycles_max: 10_000_000, debug_bytes_max: 1 << 20 };

/// A run in the interpreter, and the machine after it.
pub(crate) struct Oracle {
    pub(crate) report: Report,
    machine: Machine,
}

/// Interprets `script`.
pub(crate) fn request(script: &RunScript<'_>, cycles_max: u64) -> Oracle {
    let mut machine = Machine::new().unwrap();
    let report = machine.run(script, &Limits { cycles_max, ..ROOMY }, Tier::Interpreter, None).unwrap();
    Oracle { report, machine }
}

/// Panics unless `report` and the final state of `machine` equal those of the interpreter.
#[track_caller]
pub(crate) fn compare(oracle: &Oracle, machine: &Machine, report: &Report) {
    let facts = |report: &Report, machine: &Machine| {
        (report.outcome.clone(), report.cycles, report.load_cycles, report.debug.clone(), machine.pc())
    };
    assert_eq!(facts(report, machine), facts(&oracle.report, &oracle.machine));
    // Native code does not write other registers back when it exits.
    let registers = if report.native_cycles == 0 { 0..32 } else { 10..18 };
    assert_eq!(machine.registers()[registers.clone()], oracle.machine.registers()[registers]);
    assert!(machine.memory() == oracle.machine.memory(), "guest memory differs");
}

/// A script for version 2 without arguments.
pub(crate) fn script(elf: &Bytes) -> RunScript<'_> {
    RunScript { elf, args: &[], vm_version: 2, isa: 3 }
}
