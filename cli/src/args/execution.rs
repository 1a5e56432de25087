//! Arguments of commands that run scripts.

use std::time::Duration;

use antares_abi::Tier;
use clap::{Args, value_parser};

use crate::{
    args::{
        choice::{Choice, one_of},
        code::CodeArgs,
        credentials::CredentialArgs,
        diagnosis::DiagnosisArgs,
        number::number,
    },
    limits::DEADLINE_MS_MAX,
};

/// Limits of a run.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct LimitArgs {
    /// Cycle limit, such as 70000000 or 70M [default: 3500000000; with --server, the server's]
    #[arg(long, value_name = "N", value_parser = number)]
    pub max_cycles: Option<u64>,
    /// Wall time in milliseconds, without compiles [default: 60000; with --server, the server's]
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=DEADLINE_MS_MAX))]
    pub deadline_ms: Option<u64>,
}

/// How to run and report, here or on a server.
#[derive(Debug, Args)]
pub(crate) struct ExecutionArgs {
    #[command(flatten)]
    pub limits: LimitArgs,
    /// Tiers that may run the script
    #[arg(long, value_parser = one_of(TIERS), default_value_t)]
    pub tier: Tier,
    #[command(flatten)]
    pub code: CodeArgs,
    /// Run on this server [default: ANTARES_SERVER, else this machine]
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    #[command(flatten)]
    pub credentials: CredentialArgs,
    /// With --server: repeat the run in the interpreter and compare
    #[arg(long)]
    pub recheck: bool,
    #[command(flatten)]
    pub diagnosis: DiagnosisArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl LimitArgs {
    pub(crate) fn deadline(self) -> Option<Duration> {
        self.deadline_ms.map(Duration::from_millis)
    }
}

/// The tiers that may run.
pub(crate) const TIERS: [Choice<Tier>; 3] = [
    ("auto", Tier::Auto, "Native code where possible, the interpreter for the rest"),
    ("native", Tier::Native, "Compile first, and fail if the compile fails"),
    ("interpreter", Tier::Interpreter, "The interpreter only; never compiles"),
];
