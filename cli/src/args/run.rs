//! `antares run`.

use std::ffi::OsString;

use clap::Args;

use crate::args::{execution::ExecutionArgs, lock::LockArgs, number::number, script::ScriptArgs};

/// Arguments of `antares run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The script.
    #[command(flatten)]
    pub script: ScriptArgs,
    /// Exit with 1 if the run takes another number of cycles
    #[arg(long, value_name = "N", value_parser = number)]
    pub expect_cycles: Option<u64>,
    #[command(flatten)]
    pub how: ExecutionArgs,
    #[command(flatten)]
    pub lock: LockArgs,
    /// Arguments of the script
    #[arg(last = true, value_name = "ARG")]
    pub args: Vec<OsString>,
}
