//! Words of `antares coverage`.

use std::{ffi::OsString, path::PathBuf};

use clap::Args;

use super::number;
use crate::{args::percent::Percent, limits::DEADLINE_MS_MAX};

/// Words of `antares coverage`.
#[derive(Debug, Args)]
pub(crate) struct CoverageArgs {
    /// What to run: scripts (RISC-V ELF files built with -g, with their arguments in SCRIPT.args, one a
    /// line), transactions (*.json, as for `antares verify`), folders of both, and profiles in the format
    /// antares
    #[arg(required = true)]
    pub inputs: Vec<PathBuf>,
    /// Write a tracefile for lcov, genhtml and whatever else reads LCOV
    #[arg(long, value_name = "FILE")]
    pub lcov: Option<PathBuf>,
    /// Write a page with the sources, as far as they are in this folder and below
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Only source files whose name, as the compiler wrote it, has this text in it; may be given again
    #[arg(long, value_name = "TEXT")]
    pub only: Vec<String>,
    /// End with status 1 if fewer lines than this share have run
    #[arg(long, value_name = "PERCENT")]
    pub fail_under: Option<Percent>,
    /// Cycle limit of each [default: 3500000000]
    #[arg(long, value_name = "N", value_parser = number)]
    pub max_cycles: Option<u64>,
    /// Wall time of each, milliseconds [default: 60000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=DEADLINE_MS_MAX))]
    pub deadline_ms: Option<u64>,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
    /// Arguments of scripts without such a file, behind --
    #[arg(last = true)]
    pub args: Vec<OsString>,
}
