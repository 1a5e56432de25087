//! Arguments of `antares coverage`.

use std::{ffi::OsString, path::PathBuf};

use clap::Args;

use crate::args::{execution::LimitArgs, percent::Percent};

/// Arguments of `antares coverage`.
#[derive(Debug, Args)]
pub(crate) struct CoverageArgs {
    /// Scripts built with -g, transactions, folders of both, and profiles in the format antares. SCRIPT.args
    /// has a script's arguments, one a line
    #[arg(required = true)]
    pub inputs: Vec<PathBuf>,
    /// Write an LCOV tracefile
    #[arg(long, value_name = "FILE")]
    pub lcov: Option<PathBuf>,
    /// Write a page with the sources found in this folder and below
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Only source files whose name contains this text; repeatable
    #[arg(long, value_name = "TEXT")]
    pub only: Vec<String>,
    /// Exit with 1 if a smaller share of the lines ran
    #[arg(long, value_name = "PERCENT")]
    pub fail_under: Option<Percent>,
    #[command(flatten)]
    pub limits: LimitArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Arguments of scripts without SCRIPT.args
    #[arg(last = true)]
    pub args: Vec<OsString>,
}
