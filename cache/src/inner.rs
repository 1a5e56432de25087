//! State shared by all parts of an open cache. Each part is an `impl Inner` in its own file.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::SyncSender,
    },
    time::Instant,
};

use parking_lot::{Mutex, RwLock};

use crate::{
    account::Account,
    config::CacheConfig,
    error::StoreError,
    failures::FailureBook,
    layout::Layout,
    lock::DirLock,
    sled_store::SledStore,
    stats::{CacheState, CacheStats},
};

/// The store in use.
pub(crate) struct Live {
    pub(crate) store: Option<Arc<SledStore>>,
    /// Number of the store's directory; distinguishes stores.
    pub(crate) number: u64,
}

/// State of the one writer at a time.
#[derive(Default)]
pub(crate) struct Writer {
    pub(crate) failures: FailureBook,
    /// When to retry: to open a store if there is none, or to rebuild one in doubt.
    pub(crate) retry_at: Option<Instant>,
    /// Entries stored since the start.
    pub(crate) writes: u64,
}

/// Fields in the order in which they are dropped: the directory lock last.
pub(crate) struct Inner {
    pub(crate) chores: SyncSender<Chore>,
    pub(crate) live: RwLock<Live>,
    pub(crate) account: Mutex<Account>,
    pub(crate) writer: Mutex<Writer>,
    /// The counters of the statistics; the other fields are set on request.
    pub(crate) counters: Mutex<CacheStats>,
    /// The volume is short of space: rebuild the files even if they are small.
    pub(crate) is_short: AtomicBool,
    /// The volume had too little space at startup, and no later check found enough.
    pub(crate) began_short: AtomicBool,
    /// Number of a store with a failed sync, 0 for none. It serves reads, but stores nothing until a rebuild
    /// has rewritten it.
    pub(crate) doubted: AtomicU64,
    /// Time of the next inspection of the files.
    pub(crate) inspect_at: Mutex<Option<Instant>>,
    /// The state that was logged last.
    pub(crate) reported: Mutex<CacheState>,
    /// Disk use of the files after the last rebuild.
    pub(crate) rebuilt_bytes: AtomicU64,
    pub(crate) layout: Layout,
    pub(crate) config: CacheConfig,
    /// Absent until the volume could be written to.
    pub(crate) lock: OnceLock<DirLock>,
}

impl Inner {
    /// Whether data written to store `number` may not have reached the disk.
    pub(crate) fn is_doubted(&self, number: u64) -> bool {
        self.doubted.load(Ordering::Relaxed) == number
    }

    /// The open store and the number of its directory.
    pub(crate) fn store(&self) -> Option<(Arc<SledStore>, u64)> {
        let live = self.live.read();
        Some((Arc::clone(live.store.as_ref()?), live.number))
    }

    /// Calls the open store, and recovers it if it fails. `None` if it did, or if there is no store.
    pub(crate) fn on_store<T>(
        &self,
        writer: &mut Writer,
        call: impl FnOnce(&SledStore, u64, &mut Writer) -> Result<T, StoreError>,
    ) -> Option<T> {
        let (store, number) = self.store()?;
        let result = call(&store, number, writer);
        // Drop our handle first: a store that is still referenced cannot be closed.
        drop(store);
        result.inspect_err(|failure| self.recover(writer, number, failure)).ok()
    }

    /// Makes a change under the writer lock. `None` if there is no store, or if it failed and was recovered.
    pub(crate) fn change<T>(
        &self,
        call: impl FnOnce(&SledStore, u64, &mut Writer) -> Result<T, StoreError>,
    ) -> Option<T> {
        let mut writer = self.writer.lock();
        self.revive(&mut writer);
        self.on_store(&mut writer, call)
    }

    /// Requests a task from the upkeep thread.
    pub(crate) fn request(&self, chore: Chore) {
        // If the queue is full, it holds the same task, or the next write requests it again.
        let _ = self.chores.try_send(chore);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chore {
    /// Remove chunks without a manifest.
    Sweep,
    /// Copy the live entries into a new directory.
    Rebuild,
    /// Check the store's files for damage.
    Inspect,
}
