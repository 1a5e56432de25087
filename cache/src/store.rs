//! The interface of the store below the cache. The policy (budget, eviction, leases, recovery) uses only this
//! trait.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use crate::{
    entry::EntryId,
    error::StoreError,
    manifest::{FailureRecord, Manifest},
};

/// How long closing a store waits for its readers.
const CLOSE_WAIT: Duration = Duration::from_secs(5);
const CLOSE_POLL: Duration = Duration::from_millis(1);

/// Why the bytes of an entry cannot be returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Damage {
    /// The manifest is missing although the entry was stored.
    ManifestLost,
    /// The manifest does not decode.
    Manifest,
    /// The manifest claims more bytes than an entry may have, or the chunks have more than it claims.
    Length,
    /// A chunk is missing.
    ChunkLost,
    /// The payload does not match its SHA-256.
    Digest,
}

/// An entry as found on disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored {
    pub(crate) id: EntryId,
    pub(crate) manifest: Manifest,
    /// Position in the order of use; zero if the store has lost it.
    pub(crate) tick: u64,
}

/// A new position of an entry in the order of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Touch {
    pub(crate) id: EntryId,
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// An entry to remove.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Removal {
    pub(crate) id: EntryId,
    /// Position in the order of use that the store has on disk.
    pub(crate) tick: u64,
}

/// Result of a search for orphaned chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Orphan {
    /// Chunks of `id` from `first_index` on have no manifest.
    Found { id: EntryId, first_index: u32 },
    /// None so far; resume after `last`.
    Paused { last: Option<EntryId> },
    /// None until the end.
    NoMore,
}

/// A store of bytes that may be lost at any time. The caller serialises writers, but not readers.
pub(crate) trait BlobStore: Send + Sync {
    /// All entries with a valid manifest; removes the others.
    fn entries(&self) -> Result<Vec<Stored>, StoreError>;

    /// Stores an entry: chunks, flush, then manifest, order of use and total in one transaction, flush. On
    /// success the entry survives a crash; on failure no manifest names the chunks.
    fn insert(&self, stored: &Stored, bytes: &[u8], total_bytes: u64) -> Result<(), StoreError>;

    /// Stores an entry like `insert`, but not durably: for a copy that is not used before a `flush`.
    fn import(&self, stored: &Stored, bytes: &[u8], total_bytes: u64) -> Result<(), StoreError>;

    /// Bytes of an entry, verified in full, or their damage. Allocates at most `bytes_max`.
    fn read(&self, id: EntryId, bytes_max: u64) -> Result<Result<Vec<u8>, Damage>, StoreError>;

    /// Removes entries: manifests first, flush, then chunks. `total_bytes` is the total after the removal.
    fn remove(&self, removals: &[Removal], total_bytes: u64) -> Result<(), StoreError>;

    /// Writes new positions in the order of use; the next insert or removal makes them durable.
    fn touch(&self, touches: &[Touch]) -> Result<(), StoreError>;

    /// Total of charged bytes that the last insert or removal wrote.
    fn total_bytes(&self) -> Result<u64, StoreError>;

    /// Searches for chunks without a manifest, after those of `after`, among a bounded number of entries.
    /// `rightful_chunks` returns the chunk count in the manifest of an entry, zero if it has none.
    fn next_orphan(
        &self,
        after: Option<EntryId>,
        rightful_chunks: &dyn Fn(EntryId) -> u32,
    ) -> Result<Orphan, StoreError>;

    /// Removes at most `limit` chunks of `id` from `first_index` on; returns how many.
    fn remove_chunks(&self, id: EntryId, first_index: u32, limit: usize) -> Result<usize, StoreError>;

    /// Pins or unpins `id`; the next flush makes it durable.
    fn set_pinned(&self, id: EntryId, is_pinned: bool) -> Result<(), StoreError>;

    /// Pinned entries, stored or not.
    fn pinned(&self) -> Result<Vec<EntryId>, StoreError>;

    fn put_failure(&self, key: [u8; 32], record: &FailureRecord) -> Result<(), StoreError>;

    /// A failure record; `None` if it does not decode.
    fn failure(&self, key: [u8; 32]) -> Result<Option<FailureRecord>, StoreError>;

    fn remove_failure(&self, key: [u8; 32]) -> Result<(), StoreError>;

    /// Keys of all failures, with expiry in seconds since 1970.
    fn failures(&self) -> Result<Vec<([u8; 32], u64)>, StoreError>;

    /// Makes all earlier writes durable.
    fn flush(&self) -> Result<(), StoreError>;
}

impl Damage {
    /// The name used in logs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ManifestLost => "manifest lost",
            Self::Manifest => "manifest damaged",
            Self::Length => "length out of bounds",
            Self::ChunkLost => "chunk lost",
            Self::Digest => "digest wrong",
        }
    }
}

/// Closes a store once its reads have ended. If a read outlasts `CLOSE_WAIT`, the store closes with its last
/// reader.
pub(crate) fn close(store: Arc<dyn BlobStore>) {
    let deadline = Instant::now() + CLOSE_WAIT;
    while Arc::strong_count(&store) > 1 && Instant::now() < deadline {
        thread::sleep(CLOSE_POLL);
    }
    // sled flushes on close, which may panic.
    if catch_unwind(AssertUnwindSafe(|| drop(store))).is_err() {
        tracing::error!("the store of the cache panicked as it closed");
    }
}
