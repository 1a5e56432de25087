//! What the shared tier counts.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::{BreakerState, FailureKind, TierError};

/// Numbers of the shared tier since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedStats {
    /// Reads that gave an entry.
    pub hits: u64,
    /// Reads that gave nothing, because it is not there.
    pub misses: u64,
    /// Reads that gave an object which is no entry.
    pub damaged: u64,
    /// Reads that the breaker, or a bound on requests or their bytes, kept from being made.
    pub skipped: u64,
    /// Reads that took too long.
    pub late: u64,
    /// Reads that failed.
    pub failed: u64,
    /// Requests of any kind that failed or took too long, by why, in the order of [`FailureKind::ALL`].
    pub failures: [u64; FailureKind::ALL.len()],
    /// Writes.
    pub uploads: UploadStats,
    /// What the breaker lets through now.
    pub breaker: BreakerState,
}

/// Numbers of the writes to the shared tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UploadStats {
    /// Entries written.
    pub done: u64,
    /// Entries that were found to be there already.
    pub present: u64,
    /// Attempts that failed and are made again.
    pub retried: u64,
    /// Entries that were given up after their time.
    pub expired: u64,
    /// Entries for which the queue had no room.
    pub dropped: u64,
    /// Entries that wait.
    pub waiting: u64,
    /// Their bytes.
    pub waiting_bytes: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Reads {
    pub(crate) hits: AtomicU64,
    pub(crate) misses: AtomicU64,
    pub(crate) damaged: AtomicU64,
    pub(crate) skipped: AtomicU64,
    pub(crate) late: AtomicU64,
    pub(crate) failed: AtomicU64,
}

impl Reads {
    pub(crate) fn note_error(&self, error: &TierError) {
        let counter = match error {
            TierError::LeftAlone | TierError::Busy { .. } | TierError::NoMemory { .. } => &self.skipped,
            TierError::Deadline { .. } => &self.late,
            TierError::Failed { .. } | TierError::NoRoom { .. } => &self.failed,
        };
        add(counter);
    }
}

pub(crate) fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}
