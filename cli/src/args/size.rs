//! Words of `antares size`.

use std::path::PathBuf;

use clap::Args;

use super::MachineArgs;

/// Words of `antares size`.
#[derive(Debug, Args)]
pub(crate) struct SizeArgs {
    /// The script: a RISC-V RV64 ELF file, or - for standard input
    pub elf: PathBuf,
    /// How to understand it.
    #[command(flatten)]
    pub machine: MachineArgs,
    /// Compare with this build, a file
    #[arg(long, value_name = "FILE", conflicts_with = "shrink")]
    pub before: Option<PathBuf>,
    /// Rows of each table
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,
    /// Write the script without what the VM never loads, its segments close together
    #[arg(long, requires = "output")]
    pub shrink: bool,
    /// With --shrink: where to write it, - for standard output
    #[arg(short, long, value_name = "FILE", requires = "shrink")]
    pub output: Option<PathBuf>,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}
