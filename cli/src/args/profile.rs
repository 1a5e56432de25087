//! Arguments of `antares profile` and `antares insights`.

use std::{ffi::OsString, path::PathBuf};

use antares_profile_view::Format;
use clap::{Args, Subcommand, value_parser};

use crate::args::{credentials::CredentialArgs, execution::LimitArgs, percent::Percent, script::MachineArgs};

/// Arguments of `antares profile`.
#[derive(Debug, Args)]
pub(crate) struct ProfileArgs {
    /// Something else than making a profile.
    #[command(subcommand)]
    pub command: Option<ProfileCommand>,
    /// What to profile.
    #[command(flatten)]
    pub target: TargetArgs,
    /// Count every instruction, which is the default
    #[arg(long)]
    pub exact: bool,
    /// Output format: antares, pprof, folded, speedscope, callgrind, lcov, otlp, llvm-sample or html
    /// [default: by file name]
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<Format>,
    /// Output file, - for standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// With html: show the difference from this profile in the format antares
    #[arg(long, value_name = "FILE")]
    pub before: Option<PathBuf>,
    /// Rows of the table
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `antares insights`.
#[derive(Debug, Args)]
pub(crate) struct InsightsArgs {
    /// What to look at.
    #[command(flatten)]
    pub target: TargetArgs,
    /// Rows of the table
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// What to profile: a script, or a transaction.
#[derive(Debug, Default, Args)]
pub struct TargetArgs {
    /// The script, as elsewhere, or a profile in the format antares; with --server also its SHA-256
    #[arg(required_unless_present_any = ["tx", "server"], conflicts_with = "tx")]
    pub elf: Option<PathBuf>,
    /// The transaction with its cells, as for `antares verify`
    #[arg(long, value_name = "FILE")]
    pub tx: Option<PathBuf>,
    /// Use what this server recorded, of the script or of everything; runs nothing
    #[arg(long, value_name = "URL", conflicts_with_all = ["tx", "max_cycles", "deadline_ms", "isa", "args"])]
    pub server: Option<String>,
    #[command(flatten)]
    pub credentials: CredentialArgs,
    /// How far back, in milliseconds [default: everything it keeps]
    #[arg(long, value_name = "N", requires = "server")]
    pub window_ms: Option<u64>,
    #[command(flatten)]
    pub machine: MachineArgs,
    #[command(flatten)]
    pub limits: LimitArgs,
    /// Arguments of the script
    #[arg(last = true, value_name = "ARG")]
    pub args: Vec<OsString>,
}

/// Arguments of `antares profile`.
#[derive(Debug, Subcommand)]
pub(crate) enum ProfileCommand {
    /// Compare two profiles, or the profiles of two scripts, by function, in Markdown
    Diff(DiffArgs),
}

/// Arguments of `antares profile diff`.
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// A profile in the format antares, or a script
    pub before: PathBuf,
    /// The same
    pub after: PathBuf,
    /// Exit with 1 if cycles grow by more than this share
    #[arg(long, value_name = "PERCENT")]
    pub fail_over: Option<Percent>,
    /// Rows of the table
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// VM version
    #[arg(long, value_name = "0|1|2", default_value_t = 2, value_parser = value_parser!(u32).range(0..=2))]
    pub vm_version: u32,
    /// Arguments of the script
    #[arg(last = true, value_name = "ARG")]
    pub args: Vec<OsString>,
}
