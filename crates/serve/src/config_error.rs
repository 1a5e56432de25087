//! Why a configuration cannot be used.

use std::{io, path::PathBuf};

use crate::check::Mistake;

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The text is not TOML, or a value has the wrong type.
    #[error("{path}: {source}")]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line, column and what is wrong there.
        source: Box<toml::de::Error>,
    },
    /// Keys or values make no sense.
    #[error("the configuration has {} mistake(s):\n{}", .0.len(), lines(.0))]
    Mistakes(Vec<Mistake>),
    /// The configuration cannot be written as TOML (a path that is not text).
    #[error("the configuration cannot be printed: {0}")]
    Print(#[from] toml::ser::Error),
}

fn lines(mistakes: &[Mistake]) -> String {
    mistakes.iter().map(|mistake| format!("  {mistake}")).collect::<Vec<_>>().join("\n")
}
