//! Errors that callers see, and errors of a store that only the cache sees.

use std::{
    io::{self, ErrorKind},
    path::PathBuf,
};

use rustix::io::Errno;

/// Why a cache cannot be opened, or why a call is invalid. A store that fails in an open cache is never an
/// error: reads miss, writes are rejected, and counters record it.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// A configuration value is invalid.
    #[error("cache.{field} {reason}")]
    Config {
        /// The field of `CacheConfig`.
        field: &'static str,
        /// The requirement.
        reason: &'static str,
    },
    /// Another process has locked the directory.
    #[error("the cache directory {dir} is in use by {holder}; one process at a time may use it")]
    Locked {
        /// The cache directory.
        dir: PathBuf,
        /// The owner of the lock, as written in the lock file.
        holder: String,
    },
    /// The file system is unreliable.
    #[error(
        "the cache directory {dir} is on a {filesystem} file system, whose locks and syncs cannot be relied on; \
         use a local disk, or set cache.allow_any_filesystem"
    )]
    Filesystem {
        /// The cache directory.
        dir: PathBuf,
        /// Name of the file system.
        filesystem: &'static str,
    },
    /// The operating system failed an operation on the directory.
    #[error("{0} {1}: {2}")]
    Io(&'static str, PathBuf, #[source] io::Error),
    /// Not even an empty store could be opened in this directory; the error of the last attempt.
    #[error("no store could be opened in {0}: {1}")]
    Open(PathBuf, #[source] StoreError),
    /// Bytes put into the script space under a key that is not their SHA-256.
    #[error("the bytes have the SHA-256 {actual}, not {expected}")]
    WrongDigest {
        /// The key given, in hex.
        expected: String,
        /// The digest of the bytes, in hex.
        actual: String,
    },
}

/// Why the store under the cache failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The operating system failed a read or a write.
    #[error("input or output failed: {0}")]
    Io(io::Error),
    /// The operating system failed to sync. Written data may never reach the disk, whatever later syncs
    /// return: Linux marks the pages as clean.
    #[error("a sync failed: {0}")]
    Unsynced(io::Error),
    /// The store found its own files damaged.
    #[error("the store's files are damaged: {0}")]
    Damaged(String),
    /// The store panicked.
    #[error("the store panicked")]
    Panicked,
    /// The store did not open within the configured time.
    #[error("the store did not open in time")]
    TimedOut,
}

impl CacheError {
    /// Whether the volume fails, is full or is read-only, which may pass.
    pub(crate) fn may_pass(&self) -> bool {
        let (is_store, source) = match self {
            Self::Io(_, _, source) => (false, source),
            Self::Open(_, StoreError::Io(source) | StoreError::Unsynced(source)) => (true, source),
            _ => return false,
        };
        match source.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::ReadOnlyFilesystem => true,
            ErrorKind::PermissionDenied => false,
            // sled's errors have no number.
            _ => is_store || source.raw_os_error() == Some(Errno::IO.raw_os_error()),
        }
    }

    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io(action, path, source)
    }
}

impl From<sled::Error> for StoreError {
    fn from(error: sled::Error) -> Self {
        match error {
            sled::Error::Io(error) => Self::Io(error),
            other => Self::Damaged(other.to_string()),
        }
    }
}
