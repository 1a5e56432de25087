//! The report on the run of one script.

use antares_abi::{BailoutReason, Seen};
use serde::{Deserialize, Serialize};

use super::lines::Lines;

/// How a script ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunOutcome {
    /// It exited with this code.
    Exit(i8),
    /// A ckb-vm error.
    Error {
        /// One of [`VM_ERRORS`](super::VM_ERRORS).
        name: String,
        /// Its fields as text.
        detail: Option<String>,
    },
    /// The cycle limit was passed.
    CyclesExceeded,
}

/// Report on a run. Cycles are those of the run itself; loading is reported separately and not charged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunReport {
    /// How the script ended.
    pub outcome: RunOutcome,
    /// Cycles of the run, without [`RunReport::load_cycles`].
    pub cycles: u64,
    /// ceil((bytes of ELF segments + bytes of initial stack) / 4), 0 when loading failed.
    pub load_cycles: u64,
    /// Native cycles of the outcome: all or none of [`RunReport::cycles`].
    pub native_cycles: u64,
    /// Interpreted cycles of the outcome: none or all of [`RunReport::cycles`].
    pub interpreted_cycles: u64,
    /// Why native code bailed out, if it did.
    pub restarted: Option<BailoutReason>,
    /// Jump targets of the restarted run that native code did not know, if it bailed out for one.
    pub seen: Option<Seen>,
    /// Lines of debug output, in order.
    pub debug: Lines,
    /// Microseconds for clearing memory and the first load of the ELF.
    pub load_us: u64,
    /// Microseconds of the run itself, including a restart and its load.
    pub run_us: u64,
    /// Where the cycles went, if that was requested and a sample hit the run.
    pub samples: Option<Samples>,
}

/// A sampled profile of a run or a verification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Samples {
    /// An encoded profile. Its sum is the cycles of the report.
    pub profile: Vec<u8>,
    /// Cycles beyond those of the run that the last samples represent, as an encoded profile. They replace
    /// unseen cycles of other runs.
    pub claims: Vec<u8>,
    /// Cycles that count as other and that samples might have hit.
    pub unseen_cycles: u64,
    /// Cycles between the sum of a sampled profile and the report.
    pub mismatch_cycles: u64,
}

impl RunReport {
    /// Whether the script exited without a restart.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.restarted.is_none() && matches!(self.outcome, RunOutcome::Exit(_))
    }
}
