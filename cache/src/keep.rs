//! Operators' actions on single entries: list, remove, pin.

use crate::{
    account::Listed,
    cache::Cache,
    entry::{EntryId, Space},
    error::StoreError,
    inner::Inner,
    store::{BlobStore, Removal},
};

/// At most one in `PINNED_PARTS` of the budget can be pinned; the rest is for entries in use.
const PINNED_PARTS: u64 = 2;

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
    /// Entries of a space with keys greater than `after`, sorted by key.
    #[must_use]
    pub fn list(&self, space: Space, after: Option<[u8; 32]>, limit: usize) -> Vec<Listed> {
        self.inner.account.lock().list(space, after, limit)
    }

    /// Removes an entry and its pin, even if it is leased; returns whether it existed. Callers that have read
    /// its bytes keep them.
    #[must_use]
    pub fn remove(&self, space: Space, key: [u8; 32]) -> bool {
        let id = EntryId::new(space, key);
        let remove = |inner: &Inner, store: &dyn BlobStore| {
            let (removal, total_bytes) = {
                let mut account = inner.account.lock();
                account.set_pinned(id, false);
                (account.remove(id), account.charged_bytes())
            };
            store.set_pinned(id, false)?;
            let Some(removal) = removal else { return Ok(false) };
            store.remove(&[Removal { id, tick: removal.tick }], total_bytes)?;
            Ok(true)
        };
        self.inner.change(remove).unwrap_or(false)
    }

    /// Pins a stored entry, so that eviction skips it across restarts, or unpins it.
    #[must_use]
    pub fn pin(&self, space: Space, key: [u8; 32], is_pinned: bool) -> Pinned {
        let id = EntryId::new(space, key);
        let pin = |inner: &Inner, store: &dyn BlobStore| {
            {
                let mut account = inner.account.lock();
                let Some(charge) = account.charge(id) else { return Ok(Pinned::Absent) };
                let taken = account.pinned_bytes(id).saturating_add(charge);
                if is_pinned && taken > inner.config.budget_bytes / PINNED_PARTS {
                    return Ok(Pinned::NoRoom);
                }
                account.set_pinned(id, is_pinned);
            }
            store.set_pinned(id, is_pinned)?;
            store.flush()?;
            Ok(Pinned::Done)
        };
        self.inner.change(pin).unwrap_or(Pinned::Absent)
    }
}

impl Inner {
    /// Makes a change under the writer lock. `None` if there is no store, or if it failed and was recovered.
    fn change<T>(&self, change: impl FnOnce(&Self, &dyn BlobStore) -> Result<T, StoreError>) -> Option<T> {
        let mut writer = self.writer.lock();
        self.revive(&mut writer);
        let (store, number) = self.store()?;
        let changed = change(self, &*store);
        drop(store);
        changed.inspect_err(|failure| self.recover(&mut writer, number, failure)).ok()
    }
}
