//! Statistics of a cache.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::{entry::Space, inner::Inner};

/// One number per space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerSpace<T = u64> {
    /// Value for [`Space::Script`].
    pub script: T,
    /// Value for [`Space::Artifact`].
    pub artifact: T,
}

/// Whether the cache has a usable store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    /// All states.
    pub const ALL: [Self; 5] = [Self::Ready, Self::Rebuilt, Self::Unavailable, Self::Lost, Self::NoSpace];

    /// Whether the cache works, or recovers without help.
    #[must_use]
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

/// The counters of [`CacheStats`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) hits: PerSpace<AtomicU64>,
    pub(crate) misses: PerSpace<AtomicU64>,
    pub(crate) corrupt: AtomicU64,
    pub(crate) evictions: AtomicU64,
    pub(crate) rejected: AtomicU64,
    pub(crate) store_errors: AtomicU64,
    pub(crate) set_aside: AtomicU64,
    pub(crate) rebuilds: AtomicU64,
    pub(crate) swept_chunks: AtomicU64,
}

impl<T> PerSpace<T> {
    /// The value of one space.
    pub fn of(&self, space: Space) -> &T {
        match space {
            Space::Script => &self.script,
            Space::Artifact => &self.artifact,
        }
    }
}

impl PerSpace {
    /// The value of one space, mutable.
    pub(crate) fn of_mut(&mut self, space: Space) -> &mut u64 {
        match space {
            Space::Script => &mut self.script,
            Space::Artifact => &mut self.artifact,
        }
    }
}

impl PerSpace<AtomicU64> {
    pub(crate) fn read(&self) -> PerSpace {
        PerSpace { script: read(&self.script), artifact: read(&self.artifact) }
    }
}

impl CacheState {
    /// The name used in metrics and logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Rebuilt => "rebuilt",
            Self::Unavailable => "unavailable",
            Self::Lost => "lost",
            Self::NoSpace => "no_space",
        }
    }
}

pub(crate) fn count(counter: &AtomicU64) {
    add(counter, 1);
}

pub(crate) fn add(counter: &AtomicU64, number: u64) {
    counter.fetch_add(number, Ordering::Relaxed);
}

pub(crate) fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl Inner {
    pub(crate) fn stats(&self) -> CacheStats {
        let state = self.state();
        let number = self.live.read().number;
        let failures = self.writer.lock().failures.len() as u64;
        let account = self.account.lock();
        let mut stats = CacheStats {
            state,
            failures,
            logical_bytes: account.logical_bytes(),
            charged_bytes: account.charged_bytes(),
            charged: account.charged(),
            budget_bytes: self.config.budget_bytes,
            ..CacheStats::default()
        };
        stats.entries.script = account.entries(Space::Script);
        stats.entries.artifact = account.entries(Space::Artifact);
        drop(account);
        stats.disk_bytes = self.layout.disk_bytes();
        stats.blobs = self.layout.blobs(number);
        let counters = &self.counters;
        stats.hits = counters.hits.read();
        stats.misses = counters.misses.read();
        stats.corrupt = read(&counters.corrupt);
        stats.evictions = read(&counters.evictions);
        stats.rejected = read(&counters.rejected);
        stats.store_errors = read(&counters.store_errors);
        stats.set_aside = read(&counters.set_aside);
        stats.rebuilds = read(&counters.rebuilds);
        stats.swept_chunks = read(&counters.swept_chunks);
        stats
    }
}
