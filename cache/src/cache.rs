//! The cache's public interface: put, get, remembered failures, statistics, and operators' actions on entries.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64},
        mpsc::sync_channel,
    },
    time::{Duration, Instant},
};

use parking_lot::{Mutex, RwLock};
use sha2::{Digest, Sha256};

use crate::{
    account::Listed,
    config::CacheConfig,
    entry::{EntryId, Owner, Space},
    error::{CacheError, StoreError},
    failures::is_valid,
    inner::{Chore, Inner, Live, Writer},
    layout::{Layout, close},
    manifest::{Failure, FailureRecord, Manifest},
    recover::RETRY_PAUSE,
    sled_store::SledStore,
    stats::{CacheState, CacheStats},
    store::{Damage, Removal, Stored},
    upkeep,
};

/// Moves in the order of use that one put writes to disk.
const TOUCHES_PER_WRITE: usize = 256;
/// Stored entries between two checks of sled's `blobs` folder.
const WRITES_PER_BLOB_CHECK: u64 = 64;

/// At most one in `PINNED_PARTS` of the budget can be pinned; the rest is for entries in use.
const PINNED_PARTS: u64 = 2;
/// Tasks that wait for the upkeep thread: if there are more, the next write requests its task again.
const CHORES_MAX: usize = 3;

/// A content-addressed store for scripts and artifacts. Clones share it.
#[derive(Clone)]
pub struct Cache {
    pub(crate) inner: Arc<Inner>,
}

/// Result of a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// Stored durably: the entry survives a crash.
    Stored,
    /// An entry with this key exists already and stays.
    AlreadyThere,
    /// Not stored; the caller still has the bytes.
    Rejected(Rejection),
}

/// Why an entry was not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// Larger than the limit for one entry.
    TooLarge,
    /// All remaining entries are pinned, so nothing can be evicted.
    BudgetInUse,
    /// The file system has too little free space, or the directory has reached twice the budget.
    DiskFull,
    /// The store failed or is not open.
    Unavailable,
}

/// Result of a pin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pinned {
    /// Pinned or unpinned.
    Done,
    /// The entry or the store does not exist.
    Absent,
    /// The pin would exceed half of the budget.
    NoRoom,
}

impl Cache {
    /// Opens the cache in `config.dir`; creates it if absent. Sets an unusable store aside and opens an empty
    /// one. On a volume that is full, read-only or failing it begins without a store, and retries.
    ///
    /// # Errors
    /// An invalid configuration, or a directory that is in use by another process, on an unsuitable file
    /// system, or not accessible.
    pub fn open(config: CacheConfig) -> Result<Self, CacheError> {
        config.check()?;
        let (chores, pending) = sync_channel(CHORES_MAX);
        let inner = Arc::new(Inner {
            chores,
            live: RwLock::new(Live { store: None, number: 0 }),
            account: Mutex::default(),
            writer: Mutex::default(),
            counters: Mutex::default(),
            is_short: AtomicBool::new(false),
            began_short: AtomicBool::new(true),
            doubted: AtomicU64::new(0),
            inspect_at: Mutex::new(None),
            reported: Mutex::new(CacheState::Ready),
            rebuilt_bytes: AtomicU64::new(0),
            layout: Layout::new(&config),
            config,
            lock: OnceLock::new(),
        });
        inner.begin()?;
        upkeep::start(&inner, pending)?;
        inner.request(Chore::Sweep);
        Ok(Self { inner })
    }

    /// Stores `bytes` under `key`. When this returns [`Put::Stored`], the entry survives a crash.
    ///
    /// # Errors
    /// [`CacheError::WrongDigest`] for a script whose key is not the SHA-256 of its bytes; nothing else.
    pub fn put(&self, space: Space, key: [u8; 32], bytes: &[u8]) -> Result<Put, CacheError> {
        self.put_of(None, space, key, bytes)
    }

    /// As [`Cache::put`], on behalf of `owner`. An owner that exceeds its share evicts its own entries.
    ///
    /// # Errors
    /// As [`Cache::put`].
    pub fn put_of(
        &self,
        owner: Option<Owner>,
        space: Space,
        key: [u8; 32],
        bytes: &[u8],
    ) -> Result<Put, CacheError> {
        let digest: [u8; 32] = Sha256::digest(bytes).into();
        if space == Space::Script && digest != key {
            return Err(CacheError::WrongDigest { expected: hex::encode(key), actual: hex::encode(digest) });
        }
        let put = self.inner.put((EntryId::new(space, key), owner), digest, bytes);
        if let Put::Rejected(reason) = put {
            self.inner.counters.lock().rejected += 1;
            tracing::warn!(space = space.name(), bytes = bytes.len(), ?reason, "the cache rejected an entry");
        }
        Ok(put)
    }

    /// The bytes stored under `key`, verified in full. `None` if there are none, they do not verify, or the
    /// store fails.
    pub fn get(&self, space: Space, key: [u8; 32]) -> Option<Vec<u8>> {
        let bytes = self.inner.get(EntryId::new(space, key));
        let mut counters = self.inner.counters.lock();
        let reads = if bytes.is_some() { &mut counters.hits } else { &mut counters.misses };
        *reads.of_mut(space) += 1;
        bytes
    }

    /// Whether an entry is stored under `key`. Does not verify its bytes, read the disk or count as a use.
    pub fn contains(&self, space: Space, key: [u8; 32]) -> bool {
        self.inner.store().is_some() && self.inner.account.lock().contains(EntryId::new(space, key))
    }

    /// As [`Cache::contains`], and counts as a use: the caller relies on the entry being there a moment
    /// later.
    pub fn record_use(&self, space: Space, key: [u8; 32]) -> bool {
        if !self.contains(space, key) {
            return false;
        }
        self.inner.account.lock().touch(EntryId::new(space, key));
        true
    }

    /// Remembers for `ttl` that compiling the artifact of `key` failed. Truncates text beyond the limits;
    /// remembers nothing if the store fails.
    pub fn put_failure(&self, key: [u8; 32], reason: &str, detail: &str, ttl: Duration) {
        let now = self.inner.config.unix_seconds();
        let record = FailureRecord::new(now, now.saturating_add(ttl.as_secs()), reason, detail);
        self.inner.change(|store, _, writer| {
            writer.failures.add(key, record.expires_at);
            store.put_failure(key, &record)?;
            while let Some(due) = writer.failures.pop_due(now, self.inner.config.failures_max) {
                store.remove_failure(due)?;
            }
            Ok(())
        });
    }

    /// The remembered failure of the artifact of `key`. `None` if it has expired or the store fails.
    pub fn get_failure(&self, key: [u8; 32]) -> Option<Failure> {
        let now = self.inner.config.unix_seconds();
        let record = self.inner.try_read(|store| store.failure(key)).flatten();
        record.filter(|record| is_valid(record, now)).map(|record| record.failure)
    }

    /// The current state. Checks the directory and the volume, logs a change, and requests an inspection of
    /// the files every ten seconds.
    pub fn state(&self) -> CacheState {
        self.inner.request_inspection();
        self.inner.state()
    }

    /// Current statistics. Walks the few files of the directory.
    pub fn stats(&self) -> CacheStats {
        self.inner.stats()
    }

    /// Checks the store's files. Returns false if they are damaged; an empty store has then replaced it. Runs
    /// automatically for a cache whose [`Cache::state`] is read.
    pub fn inspect(&self) -> bool {
        self.inner.inspect()
    }

    /// Removes chunks without a manifest; returns how many. Runs automatically after an open.
    pub fn sweep(&self) -> u64 {
        upkeep::sweep(&self.inner)
    }

    /// Copies the live entries into a new directory and removes the old one; returns whether it did. Runs
    /// automatically when the files grow out of proportion.
    pub fn rebuild(&self) -> bool {
        upkeep::rebuild(&self.inner)
    }

    /// Entries of a space with keys greater than `after`, sorted by key.
    pub fn list(&self, space: Space, after: Option<[u8; 32]>, limit: usize) -> Vec<Listed> {
        self.inner.account.lock().list(space, after, limit)
    }

    /// Removes an entry and its pin; returns whether it existed. Callers that have read
    /// its bytes keep them.
    pub fn remove(&self, space: Space, key: [u8; 32]) -> bool {
        let id = EntryId::new(space, key);
        let removed = self.inner.change(|store, _, _| {
            let (removal, total_bytes) = {
                let mut account = self.inner.account.lock();
                account.set_pinned(id, false);
                (account.remove(id), account.charged_bytes())
            };
            store.set_pinned(id, false)?;
            let Some(removal) = removal else { return Ok(false) };
            store.remove(&[removal], total_bytes).map(|()| true)
        });
        removed.unwrap_or(false)
    }

    /// Pins a stored entry, so that eviction skips it across restarts, or unpins it.
    pub fn pin(&self, space: Space, key: [u8; 32], is_pinned: bool) -> Pinned {
        let id = EntryId::new(space, key);
        let pinned = self.inner.change(|store, _, _| {
            {
                let mut account = self.inner.account.lock();
                let Some(charge) = account.charge(id) else { return Ok(Pinned::Absent) };
                let taken = account.pinned_bytes(id).saturating_add(charge);
                if is_pinned && taken > self.inner.config.budget_bytes / PINNED_PARTS {
                    return Ok(Pinned::NoRoom);
                }
                account.set_pinned(id, is_pinned);
            }
            store.set_pinned(id, is_pinned)?;
            store.flush().map(|()| Pinned::Done)
        });
        pinned.unwrap_or(Pinned::Absent)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let live = self.live.get_mut();
        let Some(store) = live.store.take() else { return };
        let touches = self.account.lock().take_touches(usize::MAX);
        if let Err(failure) = store.touch(&touches) {
            tracing::warn!(error = %failure, "the cache's order of use was not written");
        }
        close(store);
    }
}

impl Inner {
    fn put(&self, (id, owner): (EntryId, Option<Owner>), sha256: [u8; 32], bytes: &[u8]) -> Put {
        let manifest = Manifest::of(bytes, sha256, self.config.unix_seconds());
        let Some(manifest) = manifest.filter(|manifest| manifest.total_bytes <= self.config.entry_bytes_max)
        else {
            return Put::Rejected(Rejection::TooLarge);
        };
        if manifest.charged_bytes() > self.config.high_bytes() {
            return Put::Rejected(Rejection::TooLarge);
        }
        let put = self.change(|store, number, writer| {
            if self.is_doubted(number) {
                self.request_again(writer);
                return Ok(Put::Rejected(Rejection::Unavailable));
            }
            if self.account.lock().contains(id) {
                self.account.lock().renew(id);
                return Ok(Put::AlreadyThere);
            }
            if self.is_disk_full(manifest.total_bytes) {
                self.relieve(store, manifest.total_bytes);
                return Ok(Put::Rejected(Rejection::DiskFull));
            }
            let put = self.write(store, (id, owner), manifest, bytes)?;
            self.after_write(writer, number);
            Ok(put)
        });
        put.unwrap_or(Put::Rejected(Rejection::Unavailable))
    }

    fn write(
        &self,
        store: &SledStore,
        (id, owner): (EntryId, Option<Owner>),
        manifest: Manifest,
        bytes: &[u8],
    ) -> Result<Put, StoreError> {
        if !self.evict_for_space(store, manifest.charged_bytes())? {
            return Ok(Put::Rejected(Rejection::BudgetInUse));
        }
        let (tick, touches, total_bytes) = {
            let mut account = self.account.lock();
            let total_bytes = account.charged_bytes() + manifest.charged_bytes();
            (account.next_tick(), account.take_touches(TOUCHES_PER_WRITE), total_bytes)
        };
        store.touch(&touches)?;
        let stored = Stored { id, manifest, tick };
        store.insert(&stored, bytes, total_bytes)?;
        self.account.lock().add(&stored, owner);
        Ok(Put::Stored)
    }

    fn get(&self, id: EntryId) -> Option<Vec<u8>> {
        if !self.account.lock().contains(id) {
            return None;
        }
        match self.try_read(|store| store.read(id, self.config.entry_bytes_max))? {
            Ok(bytes) => {
                self.account.lock().touch(id);
                Some(bytes)
            }
            Err(_) => self.get_again(id),
        }
    }

    /// Reads once more while holding the writer lock. An entry evicted during the first read is only absent.
    /// An entry that is still in the account but does not verify is damaged and is dropped.
    fn get_again(&self, id: EntryId) -> Option<Vec<u8>> {
        let mut writer = self.writer.lock();
        if !self.account.lock().contains(id) {
            return None;
        }
        let read =
            self.on_store(&mut writer, |store, _, _| match store.read(id, self.config.entry_bytes_max)? {
                Ok(bytes) => Ok(Some(bytes)),
                Err(damage) => self.drop_damaged(store, id, damage).map(|()| None),
            });
        read.flatten()
    }

    fn drop_damaged(&self, store: &SledStore, id: EntryId, damage: Damage) -> Result<(), StoreError> {
        self.counters.lock().corrupt += 1;
        tracing::error!(entry = ?id, damage = damage.into_str(), "an entry of the cache does not verify and is dropped");
        let (removal, total_bytes) = {
            let mut account = self.account.lock();
            (account.remove(id), account.charged_bytes())
        };
        store.remove(&[removal.unwrap_or(Removal { id, tick: 0 })], total_bytes)
    }

    /// Runs a read on the store; recovers the store and returns `None` if it fails.
    fn try_read<T>(&self, call: impl FnOnce(&SledStore) -> Result<T, StoreError>) -> Option<T> {
        let (store, number) = self.store()?;
        let result = call(&store);
        drop(store);
        result.inspect_err(|failure| self.recover(&mut self.writer.lock(), number, failure)).ok()
    }

    /// After a write: checks for blob files of sled and requests a rebuild if the files are too large.
    fn after_write(&self, writer: &mut Writer, number: u64) {
        writer.writes += 1;
        if writer.writes % WRITES_PER_BLOB_CHECK == 1 && self.layout.blobs(number) > 0 {
            tracing::error!(store = number, "sled has written blob files, whose space is never given back");
        }
        if upkeep::wants_rebuild(self, number) {
            self.request(Chore::Rebuild);
        }
    }

    /// Requests a rebuild of a store in doubt, unless one was attempted within `RETRY_PAUSE`.
    fn request_again(&self, writer: &mut Writer) {
        let now = Instant::now();
        if writer.retry_at.is_none_or(|at| at <= now) {
            writer.retry_at = Some(now + RETRY_PAUSE);
            self.request(Chore::Rebuild);
        }
    }
}
