//! The store on sled 0.34.7, used defensively: small values, a fixed order of writes, verified reads.
//!
//! Trees: `chunk` (entry id and index -> payload), `manifest` (entry id -> manifest), `lru` (tick and entry
//! id -> nothing), `meta` (format version, total, pins), `neg` (key -> failure). No sled type leaves this
//! file.

use std::{
    collections::HashMap,
    convert::Infallible,
    fs::{self, File},
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use sha2::{Digest, Sha256};
use sled::{
    Batch, Db, IVec, Mode, Transactional, Tree,
    transaction::{ConflictableTransactionError, TransactionError},
};

use crate::{
    entry::EntryId,
    error::StoreError,
    manifest::{CHUNK_BYTES, FailureRecord, Manifest, chunk_key, parse_chunk_key},
    store::{Damage, Removal, Stored, Touch},
};

/// Version of the trees and their encodings; a store of another version is set aside.
const FORMAT_VERSION: u64 = 3;
/// Chunks written in one batch: about 1 MiB.
const BATCH_CHUNKS: usize = 256;
/// Entries removed in one transaction.
const TRANSACTION_ENTRIES: usize = 64;
/// How long to wait until sled's threads release the files of a closed store.
const FILE_LOCK_WAIT: Duration = Duration::from_secs(5);
const FILE_LOCK_POLL: Duration = Duration::from_millis(5);
/// How often a writing call is checked for a failed store.
const WAKE_EVERY: Duration = Duration::from_millis(100);
/// Entries checked by one scan for orphans.
const SCAN_ENTRIES: usize = 1024;
/// The database file in its folder.
const FILE: &str = "db";
const KEY_FORMAT: &[u8] = b"format_version";
const KEY_TOTAL: &[u8] = b"total_bytes";
/// Prefix of the id of a pinned entry.
const KEY_PIN: &[u8] = b"pin:";

/// The trees of one open sled database.
pub(crate) struct SledStore {
    // Closing the database flushes it.
    db: Db,
    chunk: Tree,
    manifest: Tree,
    lru: Tree,
    meta: Tree,
    neg: Tree,
    /// sled's file, for the syncs that sled omits.
    file: File,
}

impl SledStore {
    /// Opens or creates the database in `path`.
    pub(crate) fn open(path: &Path, page_cache_bytes: u64) -> Result<Self, StoreError> {
        let store = guarded(|| {
            remove_unfinished_snapshots(path).map_err(StoreError::Io)?;
            fs::create_dir_all(path).map_err(StoreError::Io)?;
            let db = open_database(path, page_cache_bytes)?;
            let tree = |name: &str| db.open_tree(name);
            let store = Self {
                chunk: tree("chunk")?,
                manifest: tree("manifest")?,
                lru: tree("lru")?,
                meta: tree("meta")?,
                neg: tree("neg")?,
                db,
                file: File::open(path.join(FILE)).map_err(StoreError::Io)?,
            };
            match store.number(KEY_FORMAT)? {
                Some(FORMAT_VERSION) => {}
                Some(other) => {
                    return Err(StoreError::Damaged(format!("format version {other}, not {FORMAT_VERSION}")));
                }
                None => drop(store.meta.insert(KEY_FORMAT, &FORMAT_VERSION.to_le_bytes())?),
            }
            Ok(store)
        })?;
        // Sync data that an earlier process wrote but did not sync: from now on it counts as stored.
        match guarded(|| store.sync()) {
            Ok(()) => Ok(store),
            Err(failure) => {
                // sled panics on close if it cannot sync.
                let _ = guarded(|| {
                    drop(store);
                    Ok(())
                });
                Err(failure)
            }
        }
    }

    /// Makes written data survive a power loss. sled's own flush is `sync_file_range`, which syncs neither
    /// the length of a file nor the disk's cache.
    fn sync(&self) -> Result<(), StoreError> {
        let flushed = self.db.flush();
        self.file.sync_data().map_err(StoreError::Unsynced)?;
        flushed.map(drop).map_err(Into::into)
    }

    /// Runs a writing call. If a concurrent write fails, sled does not wake the threads that wait for it, and
    /// the call would never end.
    fn writing<T>(&self, call: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
        let (under_way, end) = mpsc::channel::<()>();
        let wake = move || {
            while end.recv_timeout(WAKE_EVERY) == Err(mpsc::RecvTimeoutError::Timeout) {
                if self.db.context.global_error().is_err() {
                    // This flush fails immediately and wakes all waiting threads.
                    let _ = guarded(|| Ok(self.db.flush()?));
                }
            }
        };
        thread::scope(|scope| {
            // If no thread can be started, the call runs without the wake-up.
            let _ = thread::Builder::new().name("cache-wake".to_owned()).spawn_scoped(scope, wake);
            let answer = guarded(call);
            drop(under_way);
            answer
        })
    }

    fn number(&self, key: &[u8]) -> Result<Option<u64>, StoreError> {
        let value = self.meta.get(key)?;
        Ok(value.and_then(|value| Some(u64::from_le_bytes(value.as_ref().try_into().ok()?))))
    }

    fn write_chunks(&self, stored: &Stored, bytes: &[u8]) -> Result<(), StoreError> {
        let mut index = 0;
        for group in bytes.chunks(CHUNK_BYTES * BATCH_CHUNKS) {
            let mut batch = Batch::default();
            for payload in group.chunks(CHUNK_BYTES) {
                batch.insert(&chunk_key(stored.id, index)[..], payload);
                index += 1;
            }
            self.chunk.apply_batch(batch)?;
        }
        Ok(())
    }

    /// Writes manifest, order of use and total in one transaction.
    fn commit(&self, stored: &Stored, total_bytes: u64) -> Result<(), StoreError> {
        let encoded = stored.manifest.encode(stored.id);
        let trees = (&self.manifest, &self.lru, &self.meta);
        transacted(trees.transaction(|(manifest, lru, meta)| {
            manifest.insert(&stored.id.to_bytes()[..], encoded.as_slice())?;
            lru.insert(lru_key(stored.tick, stored.id), &[])?;
            meta.insert(KEY_TOTAL, &total_bytes.to_le_bytes())?;
            Ok::<(), ConflictableTransactionError<Infallible>>(())
        }))
    }

    fn read_verified(
        &self,
        id: EntryId,
        manifest: &Manifest,
        bytes_max: u64,
    ) -> Result<Result<Vec<u8>, Damage>, StoreError> {
        let Some(length) =
            usize::try_from(manifest.total_bytes).ok().filter(|_| manifest.total_bytes <= bytes_max)
        else {
            return Ok(Err(Damage::Length));
        };
        let mut bytes = Vec::with_capacity(length);
        let mut expected = 0;
        for item in self.chunk.range(chunk_key(id, 0)..chunk_key(id, manifest.chunks)) {
            let (key, value) = item?;
            if parse_chunk_key(&key) != Some((id, expected)) {
                return Ok(Err(Damage::ChunkLost));
            }
            if value.len() > length - bytes.len() {
                return Ok(Err(Damage::Length));
            }
            bytes.extend_from_slice(&value);
            expected += 1;
        }
        if expected != manifest.chunks || bytes.len() != length {
            return Ok(Err(Damage::ChunkLost));
        }
        let digest: [u8; 32] = Sha256::digest(&bytes).into();
        Ok(if digest == manifest.sha256 { Ok(bytes) } else { Err(Damage::Digest) })
    }

    fn all_chunks_removed(&self, id: EntryId) -> Result<(), StoreError> {
        while self.remove_chunk_batch(id, 0, BATCH_CHUNKS)? == BATCH_CHUNKS {}
        Ok(())
    }

    fn remove_chunk_batch(&self, id: EntryId, first_index: u32, limit: usize) -> Result<usize, StoreError> {
        let mut batch = Batch::default();
        let mut removed = 0;
        for key in self.chunk.range(chunk_key(id, first_index)..=chunk_key(id, u32::MAX)).keys().take(limit) {
            batch.remove(key?);
            removed += 1;
        }
        if removed > 0 {
            self.chunk.apply_batch(batch)?;
        }
        Ok(removed)
    }

    fn remove_group(&self, group: &[Removal], total_bytes: u64) -> Result<(), StoreError> {
        let trees = (&self.manifest, &self.lru, &self.meta);
        transacted(trees.transaction(|(manifest, lru, meta)| {
            for removal in group {
                manifest.remove(&removal.id.to_bytes()[..])?;
                lru.remove(lru_key(removal.tick, removal.id))?;
            }
            meta.insert(KEY_TOTAL, &total_bytes.to_le_bytes())?;
            Ok::<(), ConflictableTransactionError<Infallible>>(())
        }))?;
        self.db.flush()?;
        group.iter().try_for_each(|removal| self.all_chunks_removed(removal.id))
    }

    /// Ticks by entry. Removes invalid keys and duplicate ticks from the tree.
    fn ticks(&self) -> Result<HashMap<EntryId, u64>, StoreError> {
        let mut ticks = HashMap::new();
        let mut stale = Vec::new();
        for key in self.lru.iter().keys() {
            let key = key?;
            match parse_lru_key(&key) {
                Some((tick, id)) => {
                    if let Some(earlier) = ticks.insert(id, tick) {
                        stale.push(IVec::from(lru_key(earlier, id)));
                    }
                }
                None => stale.push(key),
            }
        }
        for key in stale {
            self.lru.remove(key)?;
        }
        Ok(ticks)
    }
}

/// A store of bytes that may be lost at any time. The caller serialises writers, but not readers.
impl SledStore {
    /// All entries with a valid manifest; removes the others.
    pub(crate) fn entries(&self) -> Result<Vec<Stored>, StoreError> {
        guarded(|| {
            let mut ticks = self.ticks()?;
            let mut found = Vec::new();
            for item in self.manifest.iter() {
                let (key, value) = item?;
                let manifest =
                    EntryId::from_bytes(&key).and_then(|id| Some((id, Manifest::decode(id, &value)?)));
                match manifest {
                    Some((id, manifest)) => {
                        found.push(Stored { id, manifest, tick: ticks.remove(&id).unwrap_or(0) });
                    }
                    None => drop(self.manifest.remove(key)?),
                }
            }
            for (id, tick) in ticks {
                self.lru.remove(lru_key(tick, id))?;
            }
            Ok(found)
        })
    }

    /// Stores an entry: chunks, flush, then manifest, order of use and total in one transaction, flush. On
    /// success the entry survives a crash; on failure no manifest names the chunks.
    pub(crate) fn insert(&self, stored: &Stored, bytes: &[u8], total_bytes: u64) -> Result<(), StoreError> {
        self.writing(|| {
            self.write_chunks(stored, bytes)?;
            self.db.flush()?;
            self.commit(stored, total_bytes)?;
            self.sync()
        })
        // A sync error inside sled's flush looks like any other failure. The next sync reports the error too,
        // so sync again to tell them apart.
        .or_else(|failure| {
            self.file.sync_data().map_err(StoreError::Unsynced)?;
            Err(failure)
        })
    }

    /// Stores an entry like `insert`, but not durably: for a copy that is not used before a `flush`.
    pub(crate) fn import(&self, stored: &Stored, bytes: &[u8], total_bytes: u64) -> Result<(), StoreError> {
        self.writing(|| {
            self.write_chunks(stored, bytes)?;
            self.commit(stored, total_bytes)
        })
    }

    /// Bytes of an entry, verified in full, or their damage. Allocates at most `bytes_max`.
    pub(crate) fn read(&self, id: EntryId, bytes_max: u64) -> Result<Result<Vec<u8>, Damage>, StoreError> {
        guarded(|| {
            let Some(value) = self.manifest.get(id.to_bytes())? else {
                return Ok(Err(Damage::ManifestLost));
            };
            match Manifest::decode(id, &value) {
                Some(manifest) => self.read_verified(id, &manifest, bytes_max),
                None => Ok(Err(Damage::Manifest)),
            }
        })
    }

    /// Removes entries: manifests first, flush, then chunks. `total_bytes` is the total after the removal.
    pub(crate) fn remove(&self, removals: &[Removal], total_bytes: u64) -> Result<(), StoreError> {
        self.writing(|| {
            removals.chunks(TRANSACTION_ENTRIES).try_for_each(|group| self.remove_group(group, total_bytes))
        })
    }

    /// Writes new positions in the order of use; the next insert or removal makes them durable.
    pub(crate) fn touch(&self, touches: &[Touch]) -> Result<(), StoreError> {
        self.writing(|| {
            let mut batch = Batch::default();
            for touch in touches {
                batch.remove(lru_key(touch.from, touch.id));
                batch.insert(lru_key(touch.to, touch.id), &[]);
            }
            Ok(self.lru.apply_batch(batch)?)
        })
    }

    /// Total of charged bytes that the last insert or removal wrote.
    pub(crate) fn total_bytes(&self) -> Result<u64, StoreError> {
        guarded(|| Ok(self.number(KEY_TOTAL)?.unwrap_or(0)))
    }

    /// Removes chunks without a manifest, at most `limit`, of the first entry from the key `from` on that has
    /// some; searches a bounded number of entries. Returns how many, and moves `from`; `None` at the end.
    /// `rightful_chunks` returns the chunk count in the manifest of an entry, zero if it has none.
    pub(crate) fn sweep(
        &self,
        from: &mut Vec<u8>,
        limit: usize,
        rightful_chunks: impl Fn(EntryId) -> u32,
    ) -> Result<Option<usize>, StoreError> {
        self.writing(|| {
            // One seek per entry and one past its last chunk, however many chunks it has.
            for _ in 0..SCAN_ENTRIES {
                let Some(key) = self.chunk.range(from.as_slice()..).keys().next().transpose()? else {
                    return Ok(None);
                };
                *from = key.to_vec();
                let Some((id, _)) = parse_chunk_key(&key) else {
                    self.chunk.remove(&key)?;
                    continue;
                };
                let removed = self.remove_chunk_batch(id, rightful_chunks(id), limit)?;
                if removed > 0 {
                    // The next search begins at the same place: this entry may have more chunks.
                    return Ok(Some(removed));
                }
                *from = past(id);
            }
            Ok(Some(0))
        })
    }

    /// Pins or unpins `id`; the next flush makes it durable.
    pub(crate) fn set_pinned(&self, id: EntryId, is_pinned: bool) -> Result<(), StoreError> {
        self.writing(|| {
            let key = [KEY_PIN, &id.to_bytes()].concat();
            let changed = if is_pinned { self.meta.insert(key, &[]) } else { self.meta.remove(key) };
            Ok(changed.map(drop)?)
        })
    }

    /// Pinned entries, stored or not.
    pub(crate) fn pinned(&self) -> Result<Vec<EntryId>, StoreError> {
        guarded(|| {
            let keys = self.meta.scan_prefix(KEY_PIN).keys();
            let ids =
                keys.filter_map(|key| key.map(|key| EntryId::from_bytes(&key[KEY_PIN.len()..])).transpose());
            Ok(ids.collect::<Result<_, _>>()?)
        })
    }

    pub(crate) fn put_failure(&self, key: [u8; 32], record: &FailureRecord) -> Result<(), StoreError> {
        self.writing(|| Ok(self.neg.insert(key, record.encode()).map(drop)?))
    }

    /// A failure record; `None` if it does not decode.
    pub(crate) fn failure(&self, key: [u8; 32]) -> Result<Option<FailureRecord>, StoreError> {
        guarded(|| Ok(self.neg.get(key)?.and_then(|value| FailureRecord::decode(&value))))
    }

    pub(crate) fn remove_failure(&self, key: [u8; 32]) -> Result<(), StoreError> {
        self.writing(|| Ok(self.neg.remove(key).map(drop)?))
    }

    /// Keys of all failures, with expiry in seconds since 1970.
    pub(crate) fn failures(&self) -> Result<Vec<([u8; 32], u64)>, StoreError> {
        guarded(|| {
            let mut found = Vec::new();
            for item in self.neg.iter() {
                let (key, value) = item?;
                match (key.as_ref().try_into(), FailureRecord::decode(&value)) {
                    (Ok(key), Some(record)) => found.push((key, record.expires_at)),
                    _ => drop(self.neg.remove(key)?),
                }
            }
            Ok(found)
        })
    }

    /// Makes all earlier writes durable.
    pub(crate) fn flush(&self) -> Result<(), StoreError> {
        self.writing(|| self.sync())
    }
}

/// Removes snapshots that a crash left unfinished: sled takes such a file for the newest snapshot and fails.
fn remove_unfinished_snapshots(path: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("snap.") && name.ends_with(".generating") {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// Opens sled's files. sled's threads may hold the lock on them for a moment after a store is closed; no
/// other process can, because we own the directory.
fn open_database(path: &Path, page_cache_bytes: u64) -> Result<Db, StoreError> {
    let deadline = Instant::now() + FILE_LOCK_WAIT;
    loop {
        let config = sled::Config::new()
            .path(path)
            .cache_capacity(page_cache_bytes)
            .flush_every_ms(None)
            .mode(Mode::LowSpace);
        match config.open() {
            Err(sled::Error::Io(error)) if is_locked(&error) && Instant::now() < deadline => {
                thread::sleep(FILE_LOCK_POLL);
            }
            other => return Ok(other?),
        }
    }
}

/// sled reports a locked file only by its error text.
fn is_locked(error: &io::Error) -> bool {
    error.to_string().starts_with("could not acquire lock")
}

/// Runs a call into sled and converts its panics into errors: sled asserts instead of returning errors.
fn guarded<T>(call: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or(Err(StoreError::Panicked))
}

fn transacted(result: Result<(), TransactionError<Infallible>>) -> Result<(), StoreError> {
    match result {
        Ok(()) => Ok(()),
        Err(TransactionError::Storage(error)) => Err(error.into()),
        Err(TransactionError::Abort(never)) => match never {},
    }
}

/// Big-endian tick, then the entry: iteration yields the order of use.
fn lru_key(tick: u64, id: EntryId) -> Vec<u8> {
    [&tick.to_be_bytes()[..], &id.to_bytes()[..]].concat()
}

fn parse_lru_key(key: &[u8]) -> Option<(u64, EntryId)> {
    let (tick, id) = key.split_first_chunk::<8>()?;
    Some((u64::from_be_bytes(*tick), EntryId::from_bytes(id)?))
}

/// The first possible key after all chunks of `id`.
fn past(id: EntryId) -> Vec<u8> {
    let mut key = chunk_key(id, u32::MAX).to_vec();
    key.push(0);
    key
}
