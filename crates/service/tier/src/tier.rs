//! The interface of all tiers.

use bytes::Bytes;
use futures_util::future::BoxFuture;

use crate::{FailureKind, Space};

/// Why a tier gave no answer. A missing entry is not an error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TierError {
    /// The circuit is open after too many failures.
    #[error("the tier failed too often and is left alone for a while")]
    LeftAlone,
    /// The request exceeded its deadline.
    #[error("the tier took more than {deadline_ms} ms")]
    Deadline {
        /// The deadline in milliseconds.
        deadline_ms: u64,
    },
    /// Too many concurrent requests.
    #[error("{requests_max} requests wait for the tier already")]
    Busy {
        /// Maximum concurrent requests.
        requests_max: usize,
    },
    /// Reads in progress hold all of their memory budget.
    #[error("reads under way hold {bytes_max} bytes already")]
    NoMemory {
        /// The budget in bytes.
        bytes_max: usize,
    },
    /// The store reported an error or is unreachable.
    #[error("{detail}")]
    Failed {
        /// Kind of the failure.
        kind: FailureKind,
        /// The store's message, on one line.
        detail: String,
    },
    /// The tier is full, or the entry is too large for it.
    #[error("{detail}")]
    NoRoom {
        /// Which limit was exceeded.
        detail: String,
    },
}

/// A store of entries under content keys. A tier returns the bytes that were put under a key, or nothing.
pub trait CacheTier: Send + Sync {
    /// Name for metrics and logs.
    fn name(&self) -> &'static str;

    /// The bytes of an entry; `None` if it does not exist or is damaged.
    ///
    /// # Errors
    /// The tier does not answer.
    fn get(&self, space: Space, key: [u8; 32]) -> BoxFuture<'_, Result<Option<Bytes>, TierError>>;

    /// Stores an entry. A second put under the same key is allowed.
    ///
    /// # Errors
    /// The tier cannot store it.
    fn put(&self, space: Space, key: [u8; 32], bytes: Bytes) -> BoxFuture<'_, Result<(), TierError>>;

    /// Removes an entry, if it exists.
    ///
    /// # Errors
    /// The tier does not answer.
    fn remove(&self, space: Space, key: [u8; 32]) -> BoxFuture<'_, Result<(), TierError>>;
}
