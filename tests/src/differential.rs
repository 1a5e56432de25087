//! The machine against the oracle: the same case on both, and what differs.

mod campaign;
mod minimise;

use std::fmt;

use antares_vm::{LeaveReason, Library, Limits, Machine, Outcome, Report, Script, Tier};
use anyhow::Result;

pub use campaign::{Campaign, Failure, Tally, draw};
pub use minimise::{Reduced, disassembly, reduce};

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
    let ours = observed(machine, &report);
    // Native code that ran to its exit defines only the exit code.
    let defined = if report.native_cycles > 0 { 10..11 } else { 0..32 };
    Ok(match difference(&expected, &ours, defined) {
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

/// Our run in the oracle's terms.
fn observed(machine: &Machine, report: &Report) -> Run {
    let outcome = match &report.outcome {
        Outcome::Exit(code) => format!("Exit({code})"),
        Outcome::Error { name, .. } => (*name).to_owned(),
        Outcome::CyclesExceeded => "CyclesExceeded".to_owned(),
        Outcome::OutputLimit => "OutputLimit".to_owned(),
    };
    Run {
        outcome,
        cycles: report.cycles,
        load_cycles: report.load_cycles,
        debug: report.debug.clone(),
        registers: *machine.registers(),
        memory: bytes::Bytes::copy_from_slice(machine.memory()),
        time: report.run,
    }
}

fn difference(expected: &Run, ours: &Run, registers: std::ops::Range<usize>) -> Option<Difference> {
    let differs = |what: &str, oracle: String, ours: String| {
        (oracle != ours).then(|| Difference { what: what.to_owned(), oracle, ours })
    };
    differs("outcome", expected.outcome.clone(), ours.outcome.clone())
        .or_else(|| differs("debug output", format!("{:?}", expected.debug), format!("{:?}", ours.debug)))
        .or_else(|| {
            if expected.memory == ours.memory {
                return None;
            }
            let at =
                expected.memory.iter().zip(ours.memory.iter()).position(|(left, right)| left != right)?;
            let around = at & !7..(at & !7) + 8;
            let shown = |run: &Run| format!("{:02x?}", &run.memory[around.clone()]);
            differs(&format!("memory at {:#x}", around.start), shown(expected), shown(ours))
        })
        .or_else(|| differs("cycles", expected.cycles.to_string(), ours.cycles.to_string()))
        .or_else(|| differs("load cycles", expected.load_cycles.to_string(), ours.load_cycles.to_string()))
        .or_else(|| {
            let at = registers.clone().find(|&index| expected.registers[index] != ours.registers[index])?;
            let shown = |run: &Run| format!("{:#x}", run.registers[at]);
            differs(&format!("register x{at}"), shown(expected), shown(ours))
        })
}
