//! A request for one run.

use std::time::Duration;

use antares_abi::{ArtifactKey, CodeTier, CompileOptions, Sha256Digest, Tier};
use antares_pool::job::RunJob;

use crate::{
    args::code::CodeArgs,
    limits::{CYCLES_MAX_DEFAULT, DEBUG_BYTES_MAX},
};

/// A checked request for one run.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub elf: Vec<u8>,
    /// How to interpret its bytes.
    pub options: CompileOptions,
    /// Tiers that may run it.
    pub tier: Tier,
    /// Source of native code on this machine.
    pub code: CodeArgs,
    /// Arguments of the script.
    pub args: Vec<Vec<u8>>,
    /// Cycle limit; none for the engine's or server's default.
    pub cycles_max: Option<u64>,
    /// Wall time of the run; none for the engine's or server's default.
    pub deadline: Option<Duration>,
    /// Whether a server should run it twice and compare.
    #[cfg_attr(not(feature = "server"), expect(dead_code, reason = "there is no client in this binary"))]
    pub recheck: bool,
    /// Whether a server should diagnose a failure.
    #[cfg_attr(not(feature = "server"), expect(dead_code, reason = "there is no client in this binary"))]
    pub diagnosis: bool,
}

impl Request {
    /// The job for a run worker.
    pub(crate) fn job(&self, tier: Tier) -> RunJob {
        RunJob {
            options: self.options,
            tier,
            args: self.args.clone(),
            cycles_max: self.cycles_max.unwrap_or(CYCLES_MAX_DEFAULT),
            debug_bytes_max: DEBUG_BYTES_MAX,
            sample_cycles: 0,
            sample_salt: 0,
        }
    }

    /// Key of the artifact of this script under these options.
    pub(crate) fn artifact(&self) -> ArtifactKey {
        Sha256Digest::for_artifact(Sha256Digest::of(&self.elf), self.options, CodeTier::Full)
    }
}
