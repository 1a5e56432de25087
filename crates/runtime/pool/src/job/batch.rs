//! One script with many inputs: the job and the final report of a batch.

use antares_abi::{CompileOptions, Tier};
use serde::{Deserialize, Serialize};

/// Runs of one script, one after another, each from cleared memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchJob {
    /// VM version and ISA.
    pub options: CompileOptions,
    /// The tiers that may run.
    pub tier: Tier,
    /// The arguments of each run.
    pub inputs: Vec<Vec<Vec<u8>>>,
    /// Cycle limit of each run.
    pub cycles_max: u64,
    /// Maximum retained bytes of debug output of each run.
    pub debug_bytes_max: u64,
    /// Maximum charge for the debug output of all runs together, including some bytes for each line. Beyond it,
    /// further lines are omitted.
    pub output_bytes_max: u64,
    /// As in `RunJob`, for each run.
    pub sample_cycles: u64,
    /// As in `RunJob`, for the first run; each later run has the next number.
    pub sample_salt: u64,
}

/// The answer to a [`BatchJob`], after the report of each run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchReport {
    /// Completed runs.
    pub runs: u64,
}
