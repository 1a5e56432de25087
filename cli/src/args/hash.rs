//! Arguments of `antares hash`.

use std::path::PathBuf;

use clap::Args;

/// Arguments of `antares hash`.
#[derive(Debug, Args)]
pub(crate) struct HashArgs {
    /// The file, or - for standard input
    pub file: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
