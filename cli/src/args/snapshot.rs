//! Arguments of `antares snapshot`.

use std::path::PathBuf;

use clap::Args;

use crate::{
    args::{number::number, percent::Percent},
    limits::DEADLINE_MS_MAX,
};

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
    /// Cycle limit, such as 70000000 or 70M [default: 3500000000; with --server, the server's]
    #[arg(long, value_name = "N", value_parser = number)]
    pub max_cycles: Option<u64>,
    /// Wall time in milliseconds, without compiles [default: 60000; with --server, the server's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=DEADLINE_MS_MAX))]
    pub deadline_ms: Option<u64>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
