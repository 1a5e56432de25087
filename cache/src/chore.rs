//! Background tasks of the cache and their queue.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chore {
    /// Remove chunks without a manifest.
    Sweep,
    /// Copy the live entries into a new directory.
    Rebuild,
    /// Check the store's files for damage.
    Inspect,
}

/// The queue of tasks. It is short: if it is full, the next write requests its task again.
pub(crate) fn channel() -> (SyncSender<Chore>, Receiver<Chore>) {
    sync_channel(3)
}
