//! Words of `antares snapshot`.

use std::path::PathBuf;

use clap::Args;

use super::number;
use crate::{args::percent::Percent, limits::DEADLINE_MS_MAX};

/// Words of `antares snapshot`.
#[derive(Debug, Args)]
pub(crate) struct SnapshotArgs {
    /// The folder: scripts (RISC-V ELF files, with their arguments in SCRIPT.args, one a line) and
    /// transactions (*.json, as for `antares verify`), in it and below
    pub folder: PathBuf,
    /// The file with the figures [default: antares-snapshot.json in the folder]
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Write nothing: compare with the file, and end with status 1 if something has changed
    #[arg(long)]
    pub check: bool,
    /// With --check: how much cycles and sizes may change, either way [default: not at all]
    #[arg(long, value_name = "PERCENT", requires = "check")]
    pub tolerance: Option<Percent>,
    /// Cycle limit of each [default: 3500000000]
    #[arg(long, value_name = "N", value_parser = number)]
    pub max_cycles: Option<u64>,
    /// Wall time of each, milliseconds [default: 60000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=DEADLINE_MS_MAX))]
    pub deadline_ms: Option<u64>,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}
