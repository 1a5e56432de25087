//! One run of a script: its job and its report.

use antares_abi::{CompileOptions, Tier};
use serde::{Deserialize, Serialize};

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
