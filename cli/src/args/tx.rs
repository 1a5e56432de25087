//! Arguments of `antares tx`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Arguments of `antares tx`.
#[derive(Debug, Args)]
pub(crate) struct TxArgs {
    #[command(subcommand)]
    pub command: TxCommand,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum TxCommand {
    /// Print the transaction that a TOML file describes, signed, in ckb-debugger's JSON
    ///
    /// Exit status: 0 printed; 2 the file describes none.
    Build {
        /// The file, or - for standard input
        file: PathBuf,
    },
}
