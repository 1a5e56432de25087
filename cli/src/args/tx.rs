//! Arguments of `antares tx`.

use std::path::PathBuf;

use clap::Subcommand;

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
