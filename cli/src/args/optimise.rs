//! The words of `antares optimise`.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, value_parser};

use crate::args::MachineArgs;

/// Words of `antares optimise`.
#[derive(Debug, Args)]
pub(crate) struct OptimiseArgs {
    /// The script: a RISC-V RV64 ELF file
    #[arg(required_unless_present = "asm", value_name = "ELF")]
    pub elf: Option<PathBuf>,
    /// Rewrite assembly instead, between compiler and assembler; `-` reads standard input
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["elf", "profile", "tx", "all", "grow", "reads_itself", "args"]
    )]
    pub asm: Option<PathBuf>,
    /// Where to write the cheaper script or assembly
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// A profile in the format antares that tells what is hot
    #[arg(long, value_name = "FILE", conflicts_with_all = ["tx", "args"])]
    pub profile: Option<PathBuf>,
    /// A transaction that runs the script, as for `antares verify`: tells what is hot, and is run again with
    /// the cheaper script
    #[arg(long, value_name = "FILE", conflicts_with = "args")]
    pub tx: Vec<PathBuf>,
    /// Also rewrite code that the inputs do not run
    #[arg(long)]
    pub all: bool,
    /// Let the script grow: hot functions are written again below it, with more bytes for fewer cycles
    #[arg(long)]
    pub grow: bool,
    /// How to understand it.
    #[command(flatten)]
    pub machine: MachineArgs,
    /// Seconds after which nothing more is tried or proved
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = value_parser!(u64).range(1..=86_400))]
    pub budget_s: u64,
    /// Where to write the report: JSON if the name ends in .json, else Markdown [default: standard output,
    /// Markdown; of assembly a line on standard error]
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// The solver: z3, cvc5 or bitwuzla [default: the first of these on the PATH]
    #[arg(long, value_name = "NAME", value_parser = ["z3", "cvc5", "bitwuzla"])]
    pub solver: Option<String>,
    /// Have this solver prove everything again
    #[arg(long, value_name = "NAME", value_parser = ["z3", "cvc5", "bitwuzla"])]
    pub second_solver: Option<String>,
    /// Write the questions for the solver to this folder, as SMT-LIB
    #[arg(long, value_name = "FOLDER")]
    pub smt_out: Option<PathBuf>,
    /// Keep no proofs for the next time, and look for none
    #[arg(long)]
    pub no_cache: bool,
    /// Rewrite although the script reads its own code
    #[arg(long)]
    pub reads_itself: bool,
    /// Arguments of the script: it is run with them, to see what is hot, and again when it is cheaper
    #[arg(last = true, value_name = "ARG")]
    pub args: Vec<OsString>,
}
