//! The upkeep thread: sweeps orphaned chunks, rebuilds into a new directory, inspects files.

use std::{
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Weak, atomic::Ordering, mpsc::Receiver},
    thread,
};

use parking_lot::MutexGuard;
use sha2::{Digest, Sha256};

use crate::{
    entry::EntryId,
    error::{CacheError, StoreError},
    inner::{Chore, Inner, Live, Writer},
    layout::close,
    manifest::Manifest,
    sled_store::SledStore,
    store::{Removal, Stored},
};

/// Chunks removed per step, while writers wait.
const SWEEP_GROUP: usize = 256;
/// Entries copied while writers wait, at the end of a rebuild.
const FINAL_COPIES_MAX: usize = 16;

/// Starts the upkeep thread; it ends when the cache is dropped.
pub(crate) fn start(inner: &Arc<Inner>, pending: Receiver<Chore>) -> Result<(), CacheError> {
    let weak = Arc::downgrade(inner);
    let run = move || {
        while let Ok(chore) = pending.recv() {
            let Some(inner) = Weak::upgrade(&weak) else { return };
            // The panic hook reports a task that panics; the thread continues with the next task.
            let _ = catch_unwind(AssertUnwindSafe(|| match chore {
                Chore::Sweep => drop(sweep(&inner)),
                Chore::Rebuild if still_wanted(&inner) => drop(rebuild(&inner)),
                Chore::Rebuild => {}
                Chore::Inspect => drop(inner.inspect()),
            }));
        }
    };
    thread::Builder::new()
        .name("cache-upkeep".to_owned())
        .spawn(run)
        .map(drop)
        .map_err(CacheError::io("start the upkeep thread of", &inner.config.dir))
}

/// Whether the files of store `number` have grown out of proportion to their contents or the budget. At a
/// quarter above the budget, the copy that a rebuild writes still fits into twice the budget.
pub(crate) fn wants_rebuild(inner: &Inner, number: u64) -> bool {
    let disk_bytes = inner.layout.store_disk_bytes(number);
    let charged_bytes = inner.account.lock().charged_bytes();
    let budget_bytes = inner.config.budget_bytes;
    // The charge is three times the live bytes; four times exceeds what files reach in steady use.
    let loose = disk_bytes > inner.config.rebuild_bytes_min && disk_bytes > charged_bytes + charged_bytes / 3;
    if inner.is_short.swap(false, Ordering::Relaxed) && disk_bytes > charged_bytes {
        return true;
    }
    let large = disk_bytes > budget_bytes.saturating_add(budget_bytes / 4);
    // Skip files that a rebuild has just made: another rebuild would not shrink them.
    let floor = inner.rebuilt_bytes.load(Ordering::Relaxed);
    (loose || large) && disk_bytes > floor.saturating_add(floor / 2)
}

fn still_wanted(inner: &Inner) -> bool {
    inner.store().is_some_and(|(_, number)| inner.is_doubted(number) || wants_rebuild(inner, number))
}

/// Removes chunks without a manifest, in groups so that writers get their turn. Returns how many.
pub(crate) fn sweep(inner: &Inner) -> u64 {
    let (mut swept, mut from) = (0, Vec::new());
    loop {
        let removed = inner.on_store(&mut inner.writer.lock(), |store, _, _| {
            store.sweep(&mut from, SWEEP_GROUP, |id| inner.account.lock().chunks(id))
        });
        let Some(removed) = removed.flatten() else { return swept };
        inner.counters.lock().swept_chunks += removed as u64;
        swept += removed as u64;
    }
}

/// Copies the live entries into a new directory, swaps, and removes the old one; returns whether it swapped.
/// Reads continue throughout; writes wait only for the last few copies.
pub(crate) fn rebuild(inner: &Inner) -> bool {
    copy_and_swap(inner).unwrap_or_else(|error| {
        tracing::error!(%error, "the cache could not be rebuilt and goes on with its large files");
        false
    })
}

fn copy_and_swap(inner: &Inner) -> Result<bool, CacheError> {
    let Some((old, old_number)) = inner.store() else { return Ok(false) };
    let (new, number) = inner.layout.begin()?;
    let copied = copy_all(inner, &old, &new);
    // Closing the old store waits until it has no other reference.
    drop(old);
    let writer = match copied {
        Ok(writer) if inner.store().is_some_and(|(_, current)| current == old_number) => writer,
        other => {
            // The old store failed and was replaced during the copy, or the copy failed: discard the copy.
            close(new);
            inner.layout.discard(number)?;
            return other.map(|_| false).map_err(|source| inner.layout.not_open(source));
        }
    };
    swap(inner, new, number)?;
    drop(writer);
    Ok(true)
}

/// Copies everything; the last few entries under the writer lock, which it returns.
fn copy_all<'a>(
    inner: &'a Inner,
    old: &SledStore,
    new: &SledStore,
) -> Result<MutexGuard<'a, Writer>, StoreError> {
    let mut copied = Copied::default();
    loop {
        let missing = copied.missing(inner);
        if missing.len() <= FINAL_COPIES_MAX {
            break;
        }
        missing.into_iter().try_for_each(|id| copied.copy(inner, old, new, id))?;
    }
    let writer = inner.writer.lock();
    copied.missing(inner).into_iter().try_for_each(|id| copied.copy(inner, old, new, id))?;
    copied.drop_gone(inner, new)?;
    for (key, _) in old.failures()? {
        if let Some(record) = old.failure(key)? {
            new.put_failure(key, &record)?;
        }
    }
    old.pinned()?.into_iter().try_for_each(|id| new.set_pinned(id, true))?;
    new.flush()?;
    Ok(writer)
}

/// Progress of a rebuild.
#[derive(Default)]
struct Copied {
    ids: BTreeSet<EntryId>,
    charged_bytes: u64,
}

impl Copied {
    /// Entries not copied yet, most recently used first.
    fn missing(&self, inner: &Inner) -> Vec<EntryId> {
        inner.account.lock().newest_first().into_iter().filter(|id| !self.ids.contains(id)).collect()
    }

    fn copy(
        &mut self,
        inner: &Inner,
        old: &SledStore,
        new: &SledStore,
        id: EntryId,
    ) -> Result<(), StoreError> {
        self.ids.insert(id);
        let Ok(bytes) = old.read(id, inner.config.entry_bytes_max)? else {
            // Evicted in the meantime, or damaged: do not copy it.
            if inner.account.lock().contains(id) {
                inner.counters.lock().corrupt += 1;
            }
            return Ok(());
        };
        let sha256 = Sha256::digest(&bytes).into();
        let Some(manifest) = Manifest::of(&bytes, sha256, inner.config.unix_seconds()) else { return Ok(()) };
        let Some(tick) = inner.account.lock().tick(id) else { return Ok(()) };
        self.charged_bytes += manifest.charged_bytes();
        new.import(&Stored { id, manifest, tick }, &bytes, self.charged_bytes)
    }

    /// Removes entries from the copy that were evicted in the meantime.
    fn drop_gone(&self, inner: &Inner, new: &SledStore) -> Result<(), StoreError> {
        let gone = new.entries()?.into_iter().filter(|stored| !inner.account.lock().contains(stored.id));
        let removals: Vec<_> = gone.map(|stored| Removal { id: stored.id, tick: stored.tick }).collect();
        new.remove(&removals, inner.account.lock().charged_bytes())
    }
}

/// Replaces the old store by the new one and removes it. The caller holds the writer lock.
fn swap(inner: &Inner, new: Arc<SledStore>, number: u64) -> Result<(), CacheError> {
    let entries = new.entries().map_err(|source| inner.layout.not_open(source));
    let entries = match entries.and_then(|entries| inner.layout.complete(number).map(|()| entries)) {
        Ok(entries) => entries,
        Err(error) => {
            close(new);
            return Err(error);
        }
    };
    let old = {
        let mut live = inner.live.write();
        inner.account.lock().reload(&entries);
        std::mem::replace(&mut *live, Live { store: Some(new), number })
    };
    inner.counters.lock().rebuilds += 1;
    inner.rebuilt_bytes.store(inner.layout.store_disk_bytes(number), Ordering::Relaxed);
    if let Some(store) = old.store {
        close(store);
    }
    inner.layout.discard(old.number)
}
