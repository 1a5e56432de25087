//! Statistics of a cache.

use strum::{IntoStaticStr, VariantArray};

use crate::{entry::Space, inner::Inner};

/// One number per space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerSpace {
    /// Value for [`Space::Script`].
    pub script: u64,
    /// Value for [`Space::Artifact`].
    pub artifact: u64,
}

/// Whether the cache has a usable store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum CacheState {
    /// A store is open.
    #[default]
    Ready,
    /// A store is open; since this process started, it replaced one that was unusable.
    Rebuilt,
    /// No store is open: reads miss, writes are rejected, opening is retried.
    Unavailable,
    /// The directory was removed or replaced: entries stored now are lost when the process ends.
    Lost,
    /// The volume has had too little space since the cache was opened: nothing can be stored.
    NoSpace,
}

impl CacheState {
    /// Whether the cache works, or recovers without help.
    pub fn is_well(self) -> bool {
        !matches!(self, Self::Lost | Self::NoSpace)
    }
}

/// A snapshot of a cache's statistics. Counters start at zero when the process opens the cache.
#[derive(Clone, Copy, Debug, Default)]
pub struct CacheStats {
    /// State of the cache.
    pub state: CacheState,
    /// Entries stored.
    pub entries: PerSpace,
    /// Payload bytes stored.
    pub logical_bytes: u64,
    /// Bytes that count against the budget: payload and overhead.
    pub charged_bytes: u64,
    /// Charged bytes by space.
    pub charged: PerSpace,
    /// The budget, in bytes.
    pub budget_bytes: u64,
    /// Bytes that the directory takes on disk, including quarantined stores.
    pub disk_bytes: u64,
    /// Files in sled's `blobs` folder; anything other than zero is a bug.
    pub blobs: u64,
    /// Reads that returned verified bytes.
    pub hits: PerSpace,
    /// Reads that returned nothing.
    pub misses: PerSpace,
    /// Entries dropped because their bytes did not verify.
    pub corrupt: u64,
    /// Entries evicted to keep the budget.
    pub evictions: u64,
    /// Writes rejected.
    pub rejected: u64,
    /// Remembered failures.
    pub failures: u64,
    /// Errors of the store.
    pub store_errors: u64,
    /// Stores set aside because they were unusable.
    pub set_aside: u64,
    /// Rebuilds into a new directory.
    pub rebuilds: u64,
    /// Chunks without a manifest that the sweeper removed.
    pub swept_chunks: u64,
}

impl PerSpace {
    /// The value of one space.
    pub fn of(mut self, space: Space) -> u64 {
        *self.of_mut(space)
    }

    /// The value of one space, mutable.
    pub(crate) fn of_mut(&mut self, space: Space) -> &mut u64 {
        match space {
            Space::Script => &mut self.script,
            Space::Artifact => &mut self.artifact,
        }
    }
}

impl Inner {
    pub(crate) fn stats(&self) -> CacheStats {
        let state = self.state();
        let number = self.live.read().number;
        let failures = self.writer.lock().failures.len() as u64;
        let (disk_bytes, blobs) = (self.layout.disk_bytes(), self.layout.blobs(number));
        let account = self.account.lock();
        let entries =
            PerSpace { script: account.entries(Space::Script), artifact: account.entries(Space::Artifact) };
        CacheStats {
            state,
            failures,
            entries,
            logical_bytes: account.logical_bytes(),
            charged_bytes: account.charged_bytes(),
            charged: account.charged(),
            budget_bytes: self.config.budget_bytes,
            disk_bytes,
            blobs,
            ..*self.counters.lock()
        }
    }
}
