//! What an operator does to single entries: look at them, remove them, keep them from eviction.

use crate::{
    account::Listed,
    cache::Cache,
    entry::{EntryId, Space},
    error::StoreError,
    inner::{Inner, locked},
    store::{BlobStore, Removal},
};

/// One part in so many of the budget can be pinned; the rest is for what is used.
const PINNED_PARTS: u64 = 2;

/// What became of a pin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pinned {
    /// As asked.
    Done,
    /// There is no such entry, or no store.
    Absent,
    /// Half of the budget is pinned already.
    NoRoom,
}

impl Cache {
    /// Entries of a space behind `after`, in the order of their keys.
    #[must_use]
    pub fn list(&self, space: Space, after: Option<[u8; 32]>, limit: usize) -> Vec<Listed> {
        locked(&self.inner.account).list(space, after, limit)
    }

    /// Removes an entry and its pin, leased or not; whether there was one. Whoever has its bytes keeps them.
    #[must_use]
    pub fn remove(&self, space: Space, key: [u8; 32]) -> bool {
        let id = EntryId::new(space, key);
        let remove = |inner: &Inner, store: &dyn BlobStore| {
            let (removal, total_bytes) = {
                let mut account = locked(&inner.account);
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

    /// Keeps a stored entry from eviction, across restarts, or lets it go.
    #[must_use]
    pub fn pin(&self, space: Space, key: [u8; 32], is_pinned: bool) -> Pinned {
        let id = EntryId::new(space, key);
        let pin = |inner: &Inner, store: &dyn BlobStore| {
            {
                let mut account = locked(&inner.account);
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
    /// Makes a change with the other writers kept out. None if there is no store, or it failed and was seen
    /// to.
    fn change<T>(&self, change: impl FnOnce(&Self, &dyn BlobStore) -> Result<T, StoreError>) -> Option<T> {
        let mut writer = locked(&self.writer);
        self.revive(&mut writer);
        let (store, number) = self.store()?;
        let changed = change(self, &*store);
        drop(store);
        changed.inspect_err(|failure| self.recover(&mut writer, number, failure)).ok()
    }
}
