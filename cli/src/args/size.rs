//! Arguments of `antares size`.

use std::path::PathBuf;

use clap::Args;

use crate::args::script::MachineArgs;

/// Arguments of `antares size`.
#[derive(Debug, Args)]
pub(crate) struct SizeArgs {
    /// The script: a RISC-V ELF file, or - for standard input
    pub elf: PathBuf,
    /// How to understand it.
    #[command(flatten)]
    pub machine: MachineArgs,
    /// Compare with this build
    #[arg(long, value_name = "FILE", conflicts_with = "shrink")]
    pub before: Option<PathBuf>,
    /// Rows of the table
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,
    /// Write the script without the parts that the VM never loads
    #[arg(long, requires = "output")]
    pub shrink: bool,
    /// With --shrink: output file, - for standard output
    #[arg(short, long, value_name = "FILE", requires = "shrink")]
    pub output: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
