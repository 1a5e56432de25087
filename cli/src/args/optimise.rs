//! Arguments of `antares optimise`.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, value_parser};

use crate::args::MachineArgs;

/// Arguments of `antares optimise`.
#[derive(Debug, Args)]
pub struct OptimiseArgs {
    /// The script: a RISC-V RV64 ELF file
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
    /// Rewrite hot functions at the end of the file: fewer cycles, more bytes
    #[arg(long)]
    pub grow: bool,
    /// How to understand it.
    #[command(flatten)]
    pub machine: MachineArgs,
    /// Time for search and proofs, seconds
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = value_parser!(u64).range(1..=86_400))]
    pub budget_s: u64,
    /// Report file: JSON if its name ends in .json, else Markdown [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Solver [default: the first on the PATH]
    #[arg(long, value_name = "NAME", value_parser = ["z3", "cvc5", "bitwuzla"])]
    pub solver: Option<String>,
    /// Prove everything again with this solver
    #[arg(long, value_name = "NAME", value_parser = ["z3", "cvc5", "bitwuzla"])]
    pub second_solver: Option<String>,
    /// Write the queries to this folder as SMT-LIB
    #[arg(long, value_name = "FOLDER")]
    pub smt_out: Option<PathBuf>,
    /// Disable the cache of proofs
    #[arg(long)]
    pub no_cache: bool,
    /// Rewrite a script that reads its own code
    #[arg(long)]
    pub reads_itself: bool,
    /// Arguments of the script. It runs with them to find hot code, and again with the result
    #[arg(last = true, value_name = "ARG")]
    pub args: Vec<OsString>,
}
