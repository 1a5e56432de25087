//! Why a configuration cannot be used.

use std::{fmt, io, path::PathBuf};

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The text is not TOML, or a value has the wrong type.
    #[error("{path}: {source}")]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line, column and problem.
        source: Box<toml::de::Error>,
    },
    /// Keys or values are invalid.
    #[error("the configuration has {} mistake(s):\n{}", .0.len(), lines(.0))]
    Problems(Vec<ConfigProblem>),
    /// The configuration cannot be printed as TOML (a path is not valid UTF-8).
    #[error("the configuration cannot be printed: {0}")]
    Print(#[from] toml::ser::Error),
}

/// One error in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigProblem {
    /// The key, such as `listen.address`.
    pub key: String,
    /// The problem with its value.
    pub problem: String,
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.problem)
    }
}

fn lines(mistakes: &[ConfigProblem]) -> String {
    mistakes.iter().map(|mistake| format!("  {mistake}")).collect::<Vec<_>>().join("\n")
}
