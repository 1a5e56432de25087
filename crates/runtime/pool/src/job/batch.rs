//! One script, many inputs: what is asked of a run worker, and what it answers beside the report of each run.

use antares_abi::{CompileOptions, Tier};
use serde::{Deserialize, Serialize};

/// Runs of one script, one after another, each from cleared memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchJob {
    /// VM version and ISA.
    pub options: CompileOptions,
    /// Which tiers may run.
    pub tier: Tier,
    /// The arguments of each run.
    pub inputs: Vec<Vec<Vec<u8>>>,
    /// Cycle limit of each run.
    pub cycles_max: u64,
    /// Bytes of debug output of each run that are kept.
    pub debug_bytes_max: u64,
    /// Bytes of debug output of all runs together, with some for each line, after which all lines of runs are
    /// left out.
    pub output_bytes_max: u64,
    /// As in `RunJob`, for each run.
    pub sample_cycles: u64,
    /// As in `RunJob`, for the first run; each that follows has the next number.
    pub sample_salt: u64,
}

/// What a run worker answers to a [`BatchJob`], after the report of each run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchReport {
    /// Runs that were made.
    pub runs: u64,
}
