//! Words about why a script failed.

use std::{convert::Infallible, path::PathBuf, str::FromStr};

use clap::{ArgAction, Args};

/// How much is told of why a script failed.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct DiagnosisArgs {
    /// When a script fails, tell all that is known of why: run it once more, in the interpreter
    #[arg(long, conflicts_with = "no_diagnosis")]
    pub explain: bool,
    /// When a script fails, do not run it once more to tell why in short
    #[arg(long)]
    pub no_diagnosis: bool,
    /// What the script's exit codes mean: a file with lines: code = meaning
    #[arg(long, value_name = "FILE")]
    pub error_codes: Option<PathBuf>,
    /// The source map of the bundle that JavaScript was built from; of several bundles, each with its name
    #[arg(long, value_name = "[NAME=]FILE")]
    pub source_map: Vec<SourceMapName>,
    /// Tell more: -v as --explain, -vv all system calls, of scripts that accept too, -vvv and the tree of
    /// calls with cycles, -vvvv and the last 1,000 instructions
    #[arg(short = 'v', action = ArgAction::Count, conflicts_with = "no_diagnosis")]
    pub verbose: u8,
}

/// A source map, and perhaps the bundle that it is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourceMapName {
    /// As stacks name it; may be empty.
    pub bundle: Option<String>,
    pub path: PathBuf,
}

impl FromStr for SourceMapName {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text.split_once('=') {
            Some((bundle, path)) => Self { bundle: Some(bundle.to_owned()), path: path.into() },
            None => Self { bundle: None, path: text.into() },
        })
    }
}

impl DiagnosisArgs {
    /// Whether everything is to be told.
    pub(crate) fn is_whole(&self) -> bool {
        self.explain || self.verbose > 0
    }

    /// Whether a server is to tell why a script fails: whatever it tells is enough, and is printed.
    pub(crate) fn is_for_server(&self, is_json: bool) -> bool {
        !self.no_diagnosis && self.verbose < 2 && (self.is_whole() || !is_json)
    }
}
