//! Statistics of the shared tier.

use strum::VariantNames as _;

use crate::{BreakerState, FailureKind, TierError};

/// Statistics of the shared tier since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedStats {
    /// Reads that returned an entry.
    pub hits: u64,
    /// Reads of entries that do not exist.
    pub misses: u64,
    /// Reads that returned an invalid object.
    pub damaged: u64,
    /// Reads that the breaker, or a limit on requests or their bytes, prevented.
    pub skipped: u64,
    /// Reads that exceeded their deadline.
    pub late: u64,
    /// Reads that failed.
    pub failed: u64,
    /// Failed or late requests of any type, by kind, in the order of its variants.
    pub failures: [u64; FailureKind::VARIANTS.len()],
    /// Writes.
    pub uploads: UploadStats,
    /// State of the circuit breaker.
    pub breaker: BreakerState,
}

/// Statistics of writes to the shared tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UploadStats {
    /// Entries written.
    pub done: u64,
    /// Entries that existed already.
    pub present: u64,
    /// Failed attempts that are retried.
    pub retried: u64,
    /// Entries abandoned after their retry time.
    pub expired: u64,
    /// Entries dropped because the queue was full.
    pub dropped: u64,
    /// Queued entries.
    pub waiting: u64,
    /// Bytes of queued entries.
    pub waiting_bytes: u64,
}

impl SharedStats {
    /// Counts a read that gave no answer.
    pub(crate) fn count_error(&mut self, error: &TierError) {
        match error {
            TierError::LeftAlone | TierError::Busy { .. } | TierError::NoMemory { .. } => self.skipped += 1,
            TierError::Deadline { .. } => self.late += 1,
            TierError::Failed { .. } | TierError::NoRoom { .. } => self.failed += 1,
        }
    }
}
