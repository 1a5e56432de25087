//! What all parts of an open cache share, and who may touch which of it: each part is an `impl Inner` in a
//! file of its own.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::SyncSender,
    },
    time::{Duration, Instant},
};

use crate::{
    account::Account,
    chore::Chore,
    config::CacheConfig,
    error::StoreError,
    failures::FailureBook,
    layout::Layout,
    lock::DirLock,
    stats::{CacheState, Counters},
    store::BlobStore,
};

/// The store in use.
pub(crate) struct Live {
    pub(crate) store: Option<Arc<dyn BlobStore>>,
    /// Number of the store's directory; tells stores apart.
    pub(crate) number: u64,
    pub(crate) state: CacheState,
}

/// What only the one writer at a time touches.
#[derive(Default)]
pub(crate) struct Writer {
    pub(crate) failures: FailureBook,
    /// When to try again to open a store, while there is none, or to rebuild one that is in doubt.
    pub(crate) retry_at: Option<Instant>,
    /// Entries stored since the start.
    pub(crate) writes: u64,
}

/// Fields in the order in which they close: the lock of the directory goes last.
pub(crate) struct Inner {
    pub(crate) chores: SyncSender<Chore>,
    pub(crate) live: RwLock<Live>,
    pub(crate) account: Mutex<Account>,
    pub(crate) writer: Mutex<Writer>,
    pub(crate) counters: Counters,
    /// The volume is short of space: files are rebuilt although they are small.
    pub(crate) is_short: AtomicBool,
    /// The volume had too little space at the start, and nothing was seen to change that.
    pub(crate) began_short: AtomicBool,
    /// Number of a store of which a sync failed, 0 for none. It is read, and nothing is stored until a
    /// rebuild has written it anew.
    pub(crate) doubted: AtomicU64,
    /// When its files are inspected next.
    pub(crate) inspect_at: Mutex<Option<Instant>>,
    /// Its state as last told in the log.
    pub(crate) told: Mutex<CacheState>,
    /// What the files took on disk after the last rebuild.
    pub(crate) rebuilt_bytes: AtomicU64,
    pub(crate) layout: Layout,
    pub(crate) config: CacheConfig,
    pub(crate) open_time: Duration,
    pub(crate) lock: DirLock,
}

impl Inner {
    /// Whether what was written to store `number` may not reach the disk.
    pub(crate) fn is_doubted(&self, number: u64) -> bool {
        self.doubted.load(Ordering::Relaxed) == number
    }

    /// The open store and the number of its directory.
    pub(crate) fn store(&self) -> Option<(Arc<dyn BlobStore>, u64)> {
        let live = self.live.read().unwrap_or_else(PoisonError::into_inner);
        Some((Arc::clone(live.store.as_ref()?), live.number))
    }

    /// Asks the upkeep thread for a chore; one that is asked for already is enough.
    pub(crate) fn ask(&self, chore: Chore) {
        // A full queue holds the same chore, or the next write asks again.
        let _ = self.chores.try_send(chore);
    }
}

/// Takes over what a store has into the account and the book.
pub(crate) fn load(
    store: &dyn BlobStore,
    account: &mut Account,
    failures: &mut FailureBook,
) -> Result<(), StoreError> {
    account.reload(&store.entries()?);
    account.reload_pins(store.pinned()?);
    failures.reload(&store.failures()?);
    // The total on disk is for people and tests; the account is what counts. They differ only after a crash
    // between two transactions of one eviction.
    let written = store.total_bytes()?;
    if written != account.charged_bytes() {
        tracing::info!(written, counted = account.charged_bytes(), "the total of the cache is counted anew");
    }
    Ok(())
}

/// Locks; a panic of another holder leaves nothing half done that the next one could trip over.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
