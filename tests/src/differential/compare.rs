//! Comparison of one case on the machine and on the oracle.

use std::{fmt, sync::Arc};

use antares_abi::Seen;
use antares_vm::{
    BailoutReason, Library, Limits, Machine, MachineSession, NativeMachine, Outcome, RunScript, Tier,
};
use anyhow::Result;
use ckb_vm::MEMORY_FRAMESIZE;

use crate::oracle::{self, Case, Run};

/// A limit of debug output that no test reaches.
const DEBUG_BYTES_MAX: u64 = 16 << 20;

/// Common results of two equal runs, and details of ours.
#[derive(Clone, Debug)]
pub struct Equal {
    /// The outcome, as [`Run::outcome`].
    pub outcome: String,
    /// Cycles of the run.
    pub cycles: u64,
    /// Cycles in native code.
    pub native_cycles: u64,
    /// The reason of a bailout, if there was one.
    pub restarted: Option<BailoutReason>,
    /// The address unknown to native code that caused a bailout, if any.
    pub seen: Option<Seen>,
    pub debug: Vec<String>,
}

/// The first difference: its name, the oracle's value, ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Name of the differing value.
    pub what: String,
    /// The oracle's value.
    pub oracle: String,
    /// Our value.
    pub ours: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: oracle {}, ours {}", self.what, self.oracle, self.ours)
    }
}

/// Runs `case` on the oracle and on `machine`, natively if there is a library. Compares outcome, cycles,
/// debug output, all of memory, and the defined registers.
///
/// # Errors
/// The machine itself failed: never because of the guest.
pub fn compare(
    machine: &mut Machine,
    case: &Case,
    library: Option<&Library>,
) -> Result<Result<Equal, Difference>> {
    let expected = oracle::run(case);
    let script = RunScript {
        elf: &case.elf,
        args: &case.args,
        vm_version: case.options.vm_version,
        isa: case.options.isa.0,
    };
    let limits = Limits { cycles_max: case.cycles_max, debug_bytes_max: DEBUG_BYTES_MAX };
    let tier = if library.is_some() { Tier::Native } else { Tier::Interpreter };
    let report = machine.run(&script, &limits, tier, library)?;
    let (all, registers) = (machine.memory(), machine.registers());
    let ours = Observed {
        outcome: outcome(&report.outcome),
        cycles: report.cycles,
        load_cycles: report.load_cycles,
        debug: report.debug.into(),
        registers,
        native_cycles: report.native_cycles,
        restarted: report.restarted,
        seen: report.seen,
    };
    let frame = |index: usize| &all[index * MEMORY_FRAMESIZE..(index + 1) * MEMORY_FRAMESIZE];
    Ok(difference(&expected, &ours, frame).map_or_else(|| Ok(ours.equal()), Err))
}

/// As [`compare`], on the machine for ckb-script with the programs compiled in `session`.
///
/// # Errors
/// The first difference.
pub fn compare_in(session: &Arc<MachineSession>, case: &Case) -> Result<Equal, Difference> {
    let expected = oracle::run(case);
    let run = session.attempt(|| oracle::run_on::<NativeMachine>(case));
    let counts = session.take_counts();
    let ours = Observed {
        outcome: run.outcome,
        cycles: run.cycles,
        load_cycles: run.load_cycles,
        debug: run.debug,
        registers: &run.registers,
        native_cycles: counts.native_cycles,
        restarted: counts.restarted,
        seen: session.take_seen().into_iter().next().map(|(_, seen)| seen),
    };
    let found = difference(&expected, &ours, |index| run.memory.frame(index));
    found.map_or_else(|| Ok(ours.equal()), Err)
}

/// Outcome of our run, in the oracle's format.
#[must_use]
pub fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Exit(code) => format!("Exit({code})"),
        Outcome::Error { name, .. } => (*name).to_owned(),
        Outcome::CyclesExceeded => "CyclesExceeded".to_owned(),
    }
}

/// Our run, without memory.
struct Observed<'a> {
    outcome: String,
    cycles: u64,
    load_cycles: u64,
    debug: Vec<String>,
    registers: &'a [u64; 32],
    /// Cycles in native code; a native run that exits defines only the exit code.
    native_cycles: u64,
    restarted: Option<BailoutReason>,
    seen: Option<Seen>,
}

impl Observed<'_> {
    fn equal(self) -> Equal {
        let Self { outcome, cycles, debug, native_cycles, restarted, seen, .. } = self;
        Equal { outcome, cycles, native_cycles, restarted, seen, debug }
    }
}

fn difference<'a>(
    expected: &Run,
    ours: &Observed<'_>,
    frame: impl Fn(usize) -> &'a [u8],
) -> Option<Difference> {
    let differs = |what: &str, oracle: String, ours: String| {
        (oracle != ours).then(|| Difference { what: what.to_owned(), oracle, ours })
    };
    let mut registers = if ours.native_cycles > 0 { 10..11 } else { 0..32 };
    differs("outcome", expected.outcome.clone(), ours.outcome.clone())
        .or_else(|| differs("debug output", format!("{:?}", expected.debug), format!("{:?}", ours.debug)))
        .or_else(|| {
            let (at, oracle, ours) = expected.memory.difference(frame)?;
            differs(&format!("memory at {at:#x}"), format!("{oracle:02x?}"), format!("{ours:02x?}"))
        })
        .or_else(|| differs("cycles", expected.cycles.to_string(), ours.cycles.to_string()))
        .or_else(|| differs("load cycles", expected.load_cycles.to_string(), ours.load_cycles.to_string()))
        .or_else(|| {
            let at = registers.find(|&index| expected.registers[index] != ours.registers[index])?;
            let shown = |registers: &[u64; 32]| format!("{:#x}", registers[at]);
            differs(&format!("register x{at}"), shown(&expected.registers), shown(ours.registers))
        })
}
