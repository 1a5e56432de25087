//! `antares compile`.

use std::path::PathBuf;

use clap::Args;

use crate::args::script::ScriptArgs;

/// Arguments of `antares compile`.
#[derive(Debug, Args)]
pub(crate) struct CompileArgs {
    /// The script.
    #[command(flatten)]
    pub script: ScriptArgs,
    /// Output file, - for standard output [default: the script's file name with .so]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}
