//! The machine against the oracle: the same case on both, and what differs.

mod campaign;
mod minimise;
mod tally;

use std::fmt;

use antares_vm::{LeaveReason, Library, Limits, Machine, Outcome, Report, Script, Tier};
use anyhow::Result;

pub use campaign::{Batch, Campaign, Choice, Failure, Subject, draw};
pub use minimise::{Reduced, disassembly, reduce};
pub use tally::{KindTally, Tally};

use crate::oracle::{self, Case, Run};

/// Debug output that no test reaches.
const DEBUG_BYTES_MAX: u64 = 16 << 20;

/// What two equal runs had in common, and how ours was made.
#[derive(Clone, Debug)]
pub struct Equal {
    /// The outcome, as [`Run::outcome`].
    pub outcome: String,
    /// Cycles of the run.
    pub cycles: u64,
    /// Cycles in native code.
    pub native_cycles: u64,
    /// Why native code was left, if it was.
    pub restarted: Option<LeaveReason>,
    /// Debug output.
    pub debug: Vec<String>,
}

/// The first thing that differs: its name, the oracle's value, ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// What differs.
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

/// Runs `case` on the oracle and on `machine`, natively where there is a library, and compares outcome, cycles, debug
/// output, all of memory, and the registers that are defined.
///
/// # Errors
///
/// The machine itself failed: never because of the guest.
pub fn compare(
    machine: &mut Machine,
    case: &Case,
    library: Option<&Library>,
) -> Result<Result<Equal, Difference>> {
    let expected = oracle::run(case);
    let script = Script {
        elf: &case.elf,
        args: &case.args,
        vm_version: case.options.vm_version,
        isa: case.options.isa.0,
    };
    let limits = Limits { cycles_max: case.cycles_max, debug_bytes_max: DEBUG_BYTES_MAX };
    let tier = if library.is_some() { Tier::Native } else { Tier::Interpreter };
    let report = machine.run(&script, &limits, tier, library)?;
    // Native code that ran to its exit defines only the exit code.
    let defined = if report.native_cycles > 0 { 10..11 } else { 0..32 };
    Ok(match difference(&expected, machine, &report, defined) {
        Some(difference) => Err(difference),
        None => Ok(Equal {
            outcome: expected.outcome,
            cycles: report.cycles,
            native_cycles: report.native_cycles,
            restarted: report.restarted,
            debug: report.debug,
        }),
    })
}

/// How our run ended, in the oracle's terms.
fn outcome(report: &Report) -> String {
    match &report.outcome {
        Outcome::Exit(code) => format!("Exit({code})"),
        Outcome::Error { name, .. } => (*name).to_owned(),
        Outcome::CyclesExceeded => "CyclesExceeded".to_owned(),
        Outcome::OutputLimit => "OutputLimit".to_owned(),
    }
}

fn difference(
    expected: &Run,
    machine: &Machine,
    report: &Report,
    registers: std::ops::Range<usize>,
) -> Option<Difference> {
    let differs = |what: &str, oracle: String, ours: String| {
        (oracle != ours).then(|| Difference { what: what.to_owned(), oracle, ours })
    };
    differs("outcome", expected.outcome.clone(), outcome(report))
        .or_else(|| differs("debug output", format!("{:?}", expected.debug), format!("{:?}", report.debug)))
        .or_else(|| {
            let (at, oracle, ours) = expected.memory.difference(machine.memory())?;
            differs(&format!("memory at {at:#x}"), format!("{oracle:02x?}"), format!("{ours:02x?}"))
        })
        .or_else(|| differs("cycles", expected.cycles.to_string(), report.cycles.to_string()))
        .or_else(|| differs("load cycles", expected.load_cycles.to_string(), report.load_cycles.to_string()))
        .or_else(|| {
            let ours = machine.registers();
            let at = registers.clone().find(|&index| expected.registers[index] != ours[index])?;
            differs(
                &format!("register x{at}"),
                format!("{:#x}", expected.registers[at]),
                format!("{:#x}", ours[at]),
            )
        })
}
