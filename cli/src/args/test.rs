//! Arguments of `antares test` and `antares watch`.

use std::path::PathBuf;

use clap::Args;

/// Arguments of `antares test` and `antares watch`.
#[derive(Debug, Args)]
pub(crate) struct TestArgs {
    /// Folder with a Makefile, and transactions as *.toml or *.json
    #[arg(default_value = ".")]
    pub folder: PathBuf,
    /// Run the transactions whose path has this text
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub only: String,
    /// Print JSON, an object for each run
    #[arg(long)]
    pub json: bool,
}
