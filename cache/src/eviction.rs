//! Space for new entries: in the budget, on the volume, and in a directory that still exists.

use std::sync::atomic::Ordering;

use crate::{
    entry::Space,
    error::StoreError,
    inner::{Chore, Inner},
    sled_store::SledStore,
    stats::CacheState,
};

/// Maximum entries per eviction step.
const EVICTION_GROUP: usize = 64;

impl Inner {
    /// Evicts until `charge` more bytes fit the budget; false if entries in use prevent that.
    pub(crate) fn evict_for_space(&self, store: &SledStore, charge: u64) -> Result<bool, StoreError> {
        let total_bytes = || self.account.lock().charged_bytes();
        if total_bytes().saturating_add(charge) <= self.config.high_bytes() {
            return Ok(true);
        }
        let goal = self.config.low_bytes().saturating_sub(charge);
        while total_bytes() > goal && self.evict(store, total_bytes() - goal)? > 0 {}
        Ok(total_bytes().saturating_add(charge) <= self.config.budget_bytes)
    }

    /// Frees space on a full volume for the next attempt, if the cache is large enough to free what is
    /// missing. Evicts that much, once until the next rebuild has returned the space.
    pub(crate) fn relieve(&self, store: &SledStore, bytes: u64) {
        let wanted = self.config.free_bytes_min.saturating_add(bytes);
        let lack = wanted.saturating_sub(self.free_bytes());
        if lack == 0 || lack > self.layout.disk_bytes() / 2 || self.is_short.swap(true, Ordering::Relaxed) {
            return;
        }
        if self.evict(store, lack).is_ok_and(|evicted| evicted > 0) {
            self.request(Chore::Rebuild);
        }
    }

    /// Evicts a group of entries worth about `bytes`; returns how many. Chooses the space with more than half
    /// of the stored bytes, so that uploaded scripts do not evict native code.
    fn evict(&self, store: &SledStore, bytes: u64) -> Result<usize, StoreError> {
        let (removals, total_bytes) = {
            let mut account = self.account.lock();
            let charged = account.charged();
            let spaces = match charged.script >= charged.artifact {
                true => [Space::Script, Space::Artifact],
                false => [Space::Artifact, Space::Script],
            };
            // Do not shrink this space below the other one, unless the other one has nothing to evict.
            let surplus = charged.of(spaces[0]) - charged.of(spaces[1]);
            let mut removals = account.evict(spaces[0], bytes.min(surplus.max(1)), EVICTION_GROUP);
            if removals.is_empty() {
                removals = account.evict(spaces[1], bytes, EVICTION_GROUP);
            }
            (removals, account.charged_bytes())
        };
        if !removals.is_empty() {
            store.remove(&removals, total_bytes)?;
            self.counters.lock().evictions += removals.len() as u64;
        }
        Ok(removals.len())
    }

    /// Whether `bytes` more would exceed the file system's free space or the directory's hard limit. Removes
    /// quarantined stores first; requests a rebuild if the files are too large.
    pub(crate) fn is_disk_full(&self, bytes: u64) -> bool {
        if self.free_bytes() < self.config.free_bytes_min.saturating_add(bytes) {
            return true;
        }
        // Fresh data takes less than twice its size on disk.
        let fits = || {
            let disk_bytes = self.layout.disk_bytes().saturating_add(bytes.saturating_mul(2));
            disk_bytes <= self.config.disk_bytes_max()
        };
        if fits() || self.layout.drop_quarantine().is_ok_and(|dropped| dropped) && fits() {
            return false;
        }
        self.request(Chore::Rebuild);
        true
    }

    pub(crate) fn state(&self) -> CacheState {
        let is_open = self.live.read().store.is_some();
        let now = if self.lock.get().is_some_and(|lock| !lock.is_there(&self.config.dir)) {
            CacheState::Lost
        } else if self.began_short.load(Ordering::Relaxed) && self.free_bytes() < self.config.free_bytes_min {
            CacheState::NoSpace
        } else {
            self.began_short.store(false, Ordering::Relaxed);
            match (is_open, self.counters.lock().set_aside) {
                (false, _) => CacheState::Unavailable,
                (true, 0) => CacheState::Ready,
                (true, _) => CacheState::Rebuilt,
            }
        };
        let before = std::mem::replace(&mut *self.reported.lock(), now);
        if before != now && !now.is_well() {
            let dir = self.config.dir.display();
            tracing::error!(%dir, state = now.into_str(), "the cache cannot keep anything");
        }
        now
    }

    pub(crate) fn free_bytes(&self) -> u64 {
        // If the file system does not report its free space, the write itself decides.
        rustix::fs::statvfs(&self.config.dir)
            .map_or(u64::MAX, |status| status.f_bavail.saturating_mul(status.f_frsize))
    }
}
