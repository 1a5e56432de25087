//! What is to be done beside the calls of callers, and the queue of it.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Something to be done beside the calls of callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chore {
    /// Remove chunks without a manifest.
    Sweep,
    /// Copy the live entries into a new directory.
    Rebuild,
    /// Look at the files.
    Inspect,
}

/// The queue of chores. It is short: a chore that finds no place is asked for again by the next write.
pub(crate) fn channel() -> (SyncSender<Chore>, Receiver<Chore>) {
    sync_channel(3)
}
