//! What the cache asks of the store under it. The policy (budget, eviction, leases, recovery) knows only this
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

/// How long the closing of a store waits for reads on it to end.
const CLOSE_WAIT: Duration = Duration::from_secs(5);
const CLOSE_POLL: Duration = Duration::from_millis(1);

/// Why the bytes of an entry cannot be handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Damage {
    /// The manifest is gone although the entry was stored.
    ManifestLost,
    /// The manifest does not decode.
    Manifest,
    /// The manifest names more bytes than an entry may have, or its chunks have more than it names.
    Length,
    /// A chunk is missing.
    ChunkLost,
    /// The whole does not fit its SHA-256.
    Digest,
}

/// An entry as found on disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored {
    pub(crate) id: EntryId,
    pub(crate) manifest: Manifest,
    /// Place in the order of use; zero when the store has lost it.
    pub(crate) tick: u64,
}

/// A new place of an entry in the order of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Touch {
    pub(crate) id: EntryId,
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// What one removal names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Removal {
    pub(crate) id: EntryId,
    /// Place in the order of use that the store has on disk.
    pub(crate) tick: u64,
}

/// What a look for orphaned chunks found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Orphan {
    /// Chunks of `id` from `first_index` on belong to nothing.
    Found { id: EntryId, first_index: u32 },
    /// None so far; go on behind `last`.
    Paused { last: Option<EntryId> },
    /// None up to the end.
    NoMore,
}

/// A place for bytes that may be thrown away at any time. Writers are serialised by the caller; readers are
/// not.
pub(crate) trait BlobStore: Send + Sync {
    /// All entries whose manifest decodes; others are removed on the way.
    fn entries(&self) -> Result<Vec<Stored>, StoreError>;

    /// Stores an entry: chunks, flush, then manifest, order of use and total in one transaction, flush. When
    /// this returns, the entry survives a crash; when it fails, no manifest names the chunks.
    fn insert(&self, stored: &Stored, bytes: &[u8], total_bytes: u64) -> Result<(), StoreError>;

    /// Stores an entry like `insert`, without making it durable: for a copy that does not count before a
    /// `flush`.
    fn import(&self, stored: &Stored, bytes: &[u8], total_bytes: u64) -> Result<(), StoreError>;

    /// Bytes of an entry, verified in full, or what is wrong with them. Allocates at most `bytes_max`.
    fn read(&self, id: EntryId, bytes_max: u64) -> Result<Result<Vec<u8>, Damage>, StoreError>;

    /// Removes entries: manifests first, flush, then chunks. `total_bytes` is what remains.
    fn remove(&self, removals: &[Removal], total_bytes: u64) -> Result<(), StoreError>;

    /// Writes new places in the order of use; made durable by the next insert or removal.
    fn touch(&self, touches: &[Touch]) -> Result<(), StoreError>;

    /// Total of charged bytes as last written by an insert or a removal.
    fn total_bytes(&self) -> Result<u64, StoreError>;

    /// Looks for chunks that no manifest claims, behind those of `after`, among a bounded number of entries.
    /// `rightful_chunks` answers how many chunks an entry has by its manifest: zero for one without.
    fn next_orphan(
        &self,
        after: Option<EntryId>,
        rightful_chunks: &dyn Fn(EntryId) -> u32,
    ) -> Result<Orphan, StoreError>;

    /// Removes at most `limit` chunks of `id` from `first_index` on; returns how many.
    fn remove_chunks(&self, id: EntryId, first_index: u32, limit: usize) -> Result<usize, StoreError>;

    /// Keeps `id` from eviction, or no longer; made durable by the next flush.
    fn set_pinned(&self, id: EntryId, is_pinned: bool) -> Result<(), StoreError>;

    /// Entries that are kept from eviction, stored or not.
    fn pinned(&self) -> Result<Vec<EntryId>, StoreError>;

    /// Stores the record of a failure.
    fn put_failure(&self, key: [u8; 32], record: &FailureRecord) -> Result<(), StoreError>;

    /// The record of a failure; one that does not decode is absent.
    fn failure(&self, key: [u8; 32]) -> Result<Option<FailureRecord>, StoreError>;

    /// Forgets a failure.
    fn remove_failure(&self, key: [u8; 32]) -> Result<(), StoreError>;

    /// All failures, keys and expiry in seconds since 1970.
    fn failures(&self) -> Result<Vec<([u8; 32], u64)>, StoreError>;

    /// Makes everything written so far durable.
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

/// Closes a store once the reads on it have ended. One that is still read after a while closes with its last
/// reader.
pub(crate) fn close(store: Arc<dyn BlobStore>) {
    let deadline = Instant::now() + CLOSE_WAIT;
    while Arc::strong_count(&store) > 1 && Instant::now() < deadline {
        thread::sleep(CLOSE_POLL);
    }
    // sled flushes as it closes, and may panic as it does so.
    if catch_unwind(AssertUnwindSafe(|| drop(store))).is_err() {
        tracing::error!("the store of the cache panicked as it closed");
    }
}
