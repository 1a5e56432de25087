//! What every tier can do.

use bytes::Bytes;
use futures_util::future::BoxFuture;

use crate::{FailureKind, Space};

/// Why a tier gave no answer. An entry that it does not have is none of these.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TierError {
    /// It failed too often just now and is left alone for a while.
    #[error("the tier failed too often and is left alone for a while")]
    LeftAlone,
    /// It took longer than it may.
    #[error("the tier took more than {deadline_ms} ms")]
    Deadline {
        /// What it may take, milliseconds.
        deadline_ms: u64,
    },
    /// As many requests are at it as may be.
    #[error("{requests_max} requests wait for the tier already")]
    Busy {
        /// How many may be.
        requests_max: usize,
    },
    /// Reads under way hold as much memory as they may.
    #[error("reads under way hold {bytes_max} bytes already")]
    NoMemory {
        /// What they may hold.
        bytes_max: usize,
    },
    /// It says no, or cannot be reached.
    #[error("{detail}")]
    Failed {
        /// Why.
        kind: FailureKind,
        /// What it says, on one line.
        detail: String,
    },
    /// There is no room for the entry, now or ever.
    #[error("{detail}")]
    NoRoom {
        /// What is full, or what is too large.
        detail: String,
    },
}

/// A store of entries under content keys. What a tier gives is what was put under that key, or nothing.
pub trait CacheTier: Send + Sync {
    /// Name for metrics and logs.
    fn name(&self) -> &'static str;

    /// The bytes of an entry; none if it is not there or is damaged.
    ///
    /// # Errors
    /// The tier cannot be asked.
    fn get(&self, space: Space, key: [u8; 32]) -> BoxFuture<'_, Result<Option<Bytes>, TierError>>;

    /// Stores an entry. A second one under the same key is no mistake.
    ///
    /// # Errors
    /// The tier cannot take it.
    fn put(&self, space: Space, key: [u8; 32], bytes: Bytes) -> BoxFuture<'_, Result<(), TierError>>;

    /// Removes an entry, if it is there.
    ///
    /// # Errors
    /// The tier cannot be asked.
    fn remove(&self, space: Space, key: [u8; 32]) -> BoxFuture<'_, Result<(), TierError>>;
}
