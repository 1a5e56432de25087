//! Words of `antares profile` and `antares insights`.

use std::{ffi::OsString, path::PathBuf};

use antares_abi::Isa;
use antares_profile_view::Format;
use clap::{Args, Subcommand, value_parser};

use super::{CredentialArgs, Percent, number};
use crate::limits::DEADLINE_MS_MAX;

/// Words of `antares profile`.
#[derive(Debug, Args)]
pub(crate) struct ProfileArgs {
    /// Something else than making a profile.
    #[command(subcommand)]
    pub command: Option<ProfileCommand>,
    /// What to profile.
    #[command(flatten)]
    pub target: TargetArgs,
    /// Count every instruction [the default, and so far the only way]
    #[arg(long)]
    pub exact: bool,
    /// Also write the profile in this format: antares, pprof, folded, speedscope, callgrind, lcov, otlp,
    /// llvm-sample, html [default: by the name of the file]
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<Format>,
    /// Where to write it, - for standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// With the format html: show the differences from this profile, a file in the format antares
    #[arg(long, value_name = "FILE")]
    pub before: Option<PathBuf>,
    /// Functions in the table
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,
    /// Print one JSON object instead of the table
    #[arg(long)]
    pub json: bool,
}

/// Words of `antares insights`.
#[derive(Debug, Args)]
pub(crate) struct InsightsArgs {
    /// What to look at.
    #[command(flatten)]
    pub target: TargetArgs,
    /// Findings, at most
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,
    /// Print one JSON object instead of Markdown
    #[arg(long)]
    pub json: bool,
}

/// What to profile: a script, or a transaction.
#[derive(Debug, Args)]
pub(crate) struct TargetArgs {
    /// The script: a RISC-V RV64 ELF file, - for standard input, or a profile in the format antares; with
    /// --server also its SHA-256
    #[arg(required_unless_present_any = ["tx", "server"], conflicts_with = "tx")]
    pub elf: Option<PathBuf>,
    /// The transaction with the cells it uses, as for `antares verify`
    #[arg(long, value_name = "FILE")]
    pub tx: Option<PathBuf>,
    /// Run nothing: take what this server has seen of all runs, of the script or of everything
    #[arg(long, value_name = "URL", conflicts_with_all = ["tx", "max_cycles", "deadline_ms", "isa", "args"])]
    pub server: Option<String>,
    #[command(flatten)]
    pub credentials: CredentialArgs,
    /// With --server: how far back, milliseconds [default: all that it keeps]
    #[arg(long, value_name = "N", requires = "server")]
    pub window_ms: Option<u64>,
    /// VM version of the script
    #[arg(long, value_name = "0|1|2", default_value_t = 2, value_parser = value_parser!(u32).range(0..=2))]
    pub vm_version: u32,
    /// Instruction set of the script [default: what the VM version implies]
    #[arg(long, value_name = "imc[+b][+mop][+a]")]
    pub isa: Option<Isa>,
    /// Cycle limit [default: 3500000000]
    #[arg(long, value_name = "N", value_parser = number)]
    pub max_cycles: Option<u64>,
    /// Wall time, milliseconds [default: 60000]
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=DEADLINE_MS_MAX))]
    pub deadline_ms: Option<u64>,
    /// Arguments of the script, as it sees them
    #[arg(last = true, value_name = "ARG")]
    pub args: Vec<OsString>,
}

/// Words behind `antares profile`.
#[derive(Debug, Subcommand)]
pub(crate) enum ProfileCommand {
    /// Compare two profiles, or the profiles of two scripts, function by function, in Markdown
    Diff(DiffArgs),
}

/// Words of `antares profile diff`.
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// Before: a profile in the format antares, or a script, which is profiled
    pub before: PathBuf,
    /// After: the same
    pub after: PathBuf,
    /// End with status 1 if there are more cycles than before, by more than this share
    #[arg(long, value_name = "PERCENT")]
    pub fail_over: Option<Percent>,
    /// Functions in the table
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,
    /// Print one JSON object instead of Markdown
    #[arg(long)]
    pub json: bool,
    /// VM version of scripts
    #[arg(long, value_name = "0|1|2", default_value_t = 2, value_parser = value_parser!(u32).range(0..=2))]
    pub vm_version: u32,
    /// Arguments of scripts, as they see them
    #[arg(last = true, value_name = "ARG")]
    pub args: Vec<OsString>,
}
