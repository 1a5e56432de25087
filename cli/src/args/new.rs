//! Arguments of `antares new`.

use std::path::PathBuf;

use clap::{ArgGroup, Args};

/// Arguments of `antares new`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("language").required(true).args(["c", "rust", "js"])))]
pub(crate) struct NewArgs {
    /// The folder, which does not exist yet
    pub folder: PathBuf,
    /// In C
    #[arg(long)]
    pub c: bool,
    /// In Rust
    #[arg(long)]
    pub rust: bool,
    /// In JavaScript, for ckb-js-vm
    #[arg(long)]
    pub js: bool,
}
