//! What can go wrong with the folder.

use std::{io, path::PathBuf};

/// Why usage cannot be kept or told.
#[derive(Debug, thiserror::Error)]
pub enum UsageError {
    /// The system does not let it.
    #[error("{}", .path.display())]
    Io {
        /// File or folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Another process keeps its usage there.
    #[error("another process keeps its usage in {}", .path.display())]
    Held {
        /// The folder.
        path: PathBuf,
    },
    /// A page of another server, or none at all.
    #[error("the page token is not one of this server's")]
    Token,
}

impl UsageError {
    pub(crate) fn at(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}
