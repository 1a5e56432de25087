//! Arguments of `antares optimise`.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, value_parser};

use crate::args::script::MachineArgs;

/// Arguments of `antares optimise`.
#[derive(Debug, Args)]
pub struct OptimiseArgs {
    /// The script: a RISC-V RV64 ELF file with its relocations (`-Wl,-q`)
    #[arg(value_name = "ELF")]
    pub elf: PathBuf,
    /// Output file
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Profile in the format antares that shows what is hot
    #[arg(long, value_name = "FILE", conflicts_with_all = ["tx", "args"])]
    pub profile: Option<PathBuf>,
    /// Transaction that runs the script, as for `antares verify`: shows what is hot, and is verified with the
    /// result
    #[arg(long, value_name = "FILE", conflicts_with = "args")]
    pub tx: Vec<PathBuf>,
    /// Also rewrite code that the inputs do not run
    #[arg(long)]
    pub all: bool,
    /// How to understand it.
    #[command(flatten)]
    pub machine: MachineArgs,
    /// Time for the search, seconds
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = value_parser!(u64).range(1..=86_400))]
    pub budget_s: u64,
    /// Report file: JSON if its name ends in .json, else Markdown [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Arguments of the script. It runs with them to find hot code, and again with the result
    #[arg(last = true, value_name = "ARG")]
    pub args: Vec<OsString>,
}
