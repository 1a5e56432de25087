//! Arguments about why a script failed.

use std::{convert::Infallible, path::PathBuf};

use clap::{ArgAction, Args};

/// How much is told of why a script failed.
#[derive(Clone, Debug, Default, Args)]
pub struct DiagnosisArgs {
    /// Print the full diagnosis of a failure
    #[arg(long, conflicts_with = "no_diagnosis")]
    pub explain: bool,
    /// Skip the diagnosis of a failure
    #[arg(long)]
    pub no_diagnosis: bool,
    /// Meanings of exit codes: lines of `code = meaning`
    #[arg(long, value_name = "FILE")]
    pub error_codes: Option<PathBuf>,
    /// Source map of a JavaScript bundle; repeatable, with the bundle's name
    #[arg(long, value_name = "[NAME=]FILE", value_parser = source_map)]
    pub source_map: Vec<SourceMapName>,
    /// Same as --explain; -vv adds all system calls, of accepting scripts too, -vvv the call tree with
    /// cycles, -vvvv the last 1,000 instructions
    #[arg(short = 'v', action = ArgAction::Count, conflicts_with = "no_diagnosis")]
    pub verbose: u8,
}

/// A source map, and optionally its bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceMapName {
    /// As stacks name it; may be empty.
    pub bundle: Option<String>,
    pub path: PathBuf,
}

/// A file, perhaps after the bundle's name and `=`.
fn source_map(text: &str) -> Result<SourceMapName, Infallible> {
    let (bundle, path) = text.split_once('=').map_or((None, text), |(bundle, path)| (Some(bundle), path));
    Ok(SourceMapName { bundle: bundle.map(str::to_owned), path: path.into() })
}

impl DiagnosisArgs {
    /// Whether the complete diagnosis is requested.
    pub fn is_whole(&self) -> bool {
        self.explain || self.verbose > 0
    }

    /// Whether the output includes a diagnosis.
    pub fn is_printed(&self, is_json: bool) -> bool {
        !self.no_diagnosis && (self.is_whole() || !is_json)
    }

    /// Whether a server should diagnose failures: its diagnosis suffices, and is printed.
    pub fn is_for_server(&self, is_json: bool) -> bool {
        self.verbose < 2 && self.is_printed(is_json)
    }
}
