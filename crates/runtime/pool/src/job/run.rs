//! One run of a script: its job and its report.

use antares_abi::{CompileOptions, Tier};
use serde::{Deserialize, Serialize};

/// One execution of a script.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunJob {
    /// VM version and ISA.
    pub options: CompileOptions,
    /// The tiers that may run.
    pub tier: Tier,
    /// Arguments of the guest (argv, without a program name).
    pub args: Vec<Vec<u8>>,
    /// Cycle limit.
    pub cycles_max: u64,
    /// Maximum retained bytes of debug output (syscall 2177), plus one for each line; the rest is omitted and
    /// counted.
    pub debug_bytes_max: u64,
    /// Average cycles between samples; 0 disables the profile. Interpreted code is not sampled.
    pub sample_cycles: u64,
    /// Seed of the sample points, together with the arguments.
    pub sample_salt: u64,
}
