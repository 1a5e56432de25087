//! Arguments of `antares snapshot`.

use std::path::PathBuf;

use clap::Args;

use crate::args::{execution::LimitArgs, percent::Percent};

/// Arguments of `antares snapshot`.
#[derive(Debug, Args)]
pub(crate) struct SnapshotArgs {
    /// Folder of scripts and transactions. SCRIPT.args has a script's arguments, one a line
    pub folder: PathBuf,
    /// Snapshot file [default: antares-snapshot.json in the folder]
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Compare with the file and write nothing; exit with 1 on changes
    #[arg(long)]
    pub check: bool,
    /// With --check: allowed change of cycles and sizes [default: none]
    #[arg(long, value_name = "PERCENT", requires = "check", value_parser = Percent::part)]
    pub tolerance: Option<Percent>,
    #[command(flatten)]
    pub limits: LimitArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
