//! Errors of fuzzing.

use libafl::Error;

/// Why fuzzing failed.
#[derive(Debug, thiserror::Error)]
pub enum FuzzError {
    /// The job is invalid.
    #[error("{0}")]
    Job(String),
    /// libafl failed.
    #[error("libafl: {0}")]
    Library(String),
    /// The parent is gone.
    #[error("nobody listens: {0}")]
    Parent(#[from] std::io::Error),
}

impl From<Error> for FuzzError {
    fn from(error: Error) -> Self {
        Self::Library(error.to_string())
    }
}
