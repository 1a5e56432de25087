//! One run of a script: its job and its report.

use antares_abi::{CompileOptions, Seen, Tier};
use antares_hosted::job::Lines;
use serde::{Deserialize, Serialize};

use super::samples::Samples;
use crate::early::NativeEnd;

/// One execution of a script.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunJob {
    /// VM version and ISA.
    pub options: CompileOptions,
    /// Which tiers may run.
    pub tier: Tier,
    /// Arguments as the guest sees them (argv, without a program name).
    pub args: Vec<Vec<u8>>,
    /// Cycle limit.
    pub cycles_max: u64,
    /// Bytes of debug output (syscall 2177) that are kept, with one more for each line; what is beyond them
    /// is left out and counted.
    pub debug_bytes_max: u64,
    /// Cycles between the samples of its profile, on average; 0 for no profile. What the interpreter runs is
    /// not sampled.
    pub sample_cycles: u64,
    /// What the sample points follow from, with the arguments.
    pub sample_salt: u64,
}

/// How a script ended, as far as the worker can tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunOutcome {
    /// The script exited with this code.
    Exit(i8),
    /// A ckb-vm error: the variant's name (`MemOutOfBound`) and its details as text, if it has any.
    Error {
        /// Name of the variant of ckb-vm's `Error`.
        name: String,
        /// Its fields as text.
        detail: Option<String>,
    },
    /// The cycle limit was passed.
    CyclesExceeded,
}

/// How one execution ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunReport {
    /// How the script ended.
    pub outcome: RunOutcome,
    /// Cycles of the run, without [`RunReport::load_cycles`].
    pub cycles: u64,
    /// ceil(loaded bytes / 4).
    pub load_cycles: u64,
    /// Cycles that count for the outcome and ran in native code.
    pub native_cycles: u64,
    /// Cycles that count for the outcome and ran in the interpreter.
    pub interpreted_cycles: u64,
    /// Why native code was left before the end, if it was: a `BailoutReason` name.
    pub restarted: Option<String>,
    /// What native code did not know, if it was left for such a place.
    pub seen: Option<Seen>,
    /// Lines of debug output, in order.
    pub debug: Lines,
    /// Time to load the library and the ELF, microseconds.
    pub load_us: u64,
    /// Time of the run itself, microseconds.
    pub run_us: u64,
    /// Where the cycles went, if that was asked for and a sample hit the run.
    pub samples: Option<Samples>,
}

impl RunReport {
    /// Whether the script came to its own end in one tier.
    pub(crate) fn is_clean(&self) -> bool {
        self.restarted.is_none() && matches!(self.outcome, RunOutcome::Exit(_))
    }

    /// What the run says of its native code. What ends in an error would have gone no further natively.
    #[must_use]
    pub fn native_end(&self) -> NativeEnd {
        match (&self.restarted, &self.outcome) {
            (None, _) if self.native_cycles > 0 => NativeEnd::Whole,
            (Some(_), RunOutcome::Exit(_)) => NativeEnd::Left,
            _ => NativeEnd::Unknown,
        }
    }
}
