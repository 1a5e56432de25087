//! Arguments of `antares verdict`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Arguments of `antares verdict`.
#[derive(Debug, Args)]
pub(crate) struct VerdictArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: VerdictCommand,
}

/// What to do with a verdict.
#[derive(Debug, Subcommand)]
pub(crate) enum VerdictCommand {
    /// Check the signature of an answer, and that the answer says what was signed
    Check {
        /// The answer as JSON, of `antares verify --sign --json` or of the server's own JSON; - for standard
        /// input
        answer: PathBuf,
        /// The list of keys (trusted.json of the server's folder), or the folder
        #[arg(long, value_name = "FILE")]
        keys: PathBuf,
        /// Also check that it is about this transaction with these cells, as for `antares verify`
        #[arg(long, value_name = "FILE")]
        tx: Option<PathBuf>,
        /// Print what was signed as one JSON object
        #[arg(long)]
        json: bool,
    },
}
