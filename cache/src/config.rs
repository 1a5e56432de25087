//! The limits of a cache, with units and defaults, and its clock.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use antares_abi::LIBRARY_BYTES_MAX;

use crate::CacheError;

const MIB: u64 = 1 << 20;

/// The minimum disk use of sled's files, doubled for a rebuild.
const DISK_BYTES_MIN: u64 = 16 * MIB;

/// Eviction starts when live bytes would exceed this percentage of the budget, and stops at the lower one.
const HIGH_PERCENT: u64 = 90;
const LOW_PERCENT: u64 = 80;

/// Default of [`CacheConfig::budget_bytes`].
pub const DEFAULT_BUDGET_BYTES: u64 = 2 << 30;

/// Directory and limits of a cache.
#[derive(Clone, Debug)]
pub struct CacheConfig {
    /// Directory of this cache alone; created if absent. Only one process at a time may use it.
    pub dir: PathBuf,
    /// Disk budget in bytes. The cache charges three bytes for each byte stored, which is what sled's files
    /// grow to. Provide a volume of twice this size, which is the hard limit (at least 16 MiB): a rebuild
    /// writes the live entries a second time. Default 2 GiB.
    pub budget_bytes: u64,
    /// Maximum size of one entry, in bytes; also the most that a read allocates. Default 64 MiB.
    pub entry_bytes_max: u64,
    /// Minimum free bytes of the file system; below it, nothing is stored. Default 64 MiB.
    pub free_bytes_min: u64,
    /// Memory for sled's page cache, in bytes. Default 32 MiB.
    pub page_cache_bytes: u64,
    /// Disk use in bytes below which files are not rebuilt for being larger than their live entries. Default
    /// 64 MiB.
    pub rebuild_bytes_min: u64,
    /// Maximum number of remembered compile failures. Default 10,000.
    pub failures_max: usize,
    /// How long to wait for another process to release the directory. Default 5 s.
    pub lock_wait: Duration,
    /// How long sled may take to open before its files are quarantined. Default 30 s.
    pub open_timeout: Duration,
    /// Accept network, FUSE and overlay file systems, whose locks and syncs are unreliable. Default false.
    pub allow_any_filesystem: bool,
    /// Seconds since 1970 in place of the system's clock, for the lifetimes of failures: tests set it.
    pub clock: Option<Arc<AtomicU64>>,
}

impl CacheConfig {
    /// A configuration with the defaults.
    pub fn new(dir: impl Into<PathBuf>, budget_bytes: u64) -> Self {
        Self {
            dir: dir.into(),
            budget_bytes,
            entry_bytes_max: LIBRARY_BYTES_MAX,
            free_bytes_min: 64 * MIB,
            page_cache_bytes: 32 * MIB,
            rebuild_bytes_min: 64 * MIB,
            failures_max: 10_000,
            lock_wait: Duration::from_secs(5),
            open_timeout: Duration::from_secs(30),
            allow_any_filesystem: false,
            clock: None,
        }
    }

    /// Rejects invalid values.
    ///
    /// # Errors
    /// [`CacheError::Config`] with the field and the reason.
    pub fn check(&self) -> Result<(), CacheError> {
        let refuse = |field, reason| Err(CacheError::Config { field, reason });
        if self.budget_bytes < MIB {
            return refuse("budget_bytes", "must be at least 1 MiB");
        }
        if self.entry_bytes_max == 0 {
            return refuse("entry_bytes_max", "must not be zero");
        }
        Ok(())
    }

    /// Hard limit of the directory's disk use; beyond it, nothing is stored.
    pub(crate) fn disk_bytes_max(&self) -> u64 {
        self.budget_bytes.saturating_mul(2).max(DISK_BYTES_MIN)
    }

    /// Live bytes above which eviction starts.
    pub(crate) fn high_bytes(&self) -> u64 {
        percent_of(self.budget_bytes, HIGH_PERCENT)
    }

    /// Live bytes at which eviction stops.
    pub(crate) fn low_bytes(&self) -> u64 {
        percent_of(self.budget_bytes, LOW_PERCENT)
    }

    /// Seconds since 1970; zero for a clock set before that. It may jump in both directions.
    pub(crate) fn unix_seconds(&self) -> u64 {
        match &self.clock {
            Some(clock) => clock.load(Ordering::Relaxed),
            None => SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        }
    }
}

fn percent_of(bytes: u64, percent: u64) -> u64 {
    // Divide first: a budget near 2^64 must not overflow, and the watermark may be a few bytes off.
    bytes / 100 * percent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(change: impl FnOnce(&mut CacheConfig), expected: &str) {
        let mut config = CacheConfig::new("/nowhere", 10 * MIB);
        change(&mut config);
        match config.check() {
            Err(CacheError::Config { field, .. }) => assert_eq!(field, expected),
            other => panic!("expected a refusal of {expected}, got {other:?}"),
        }
    }

    #[test]
    fn senseless_values_are_refused_by_name() {
        refused(|c| c.budget_bytes = 0, "budget_bytes");
        refused(|c| c.entry_bytes_max = 0, "entry_bytes_max");
    }

    #[test]
    fn watermarks_do_not_overflow() {
        let config = CacheConfig::new("/nowhere", u64::MAX);
        assert!(config.low_bytes() < config.high_bytes());
        assert!(config.high_bytes() < config.budget_bytes);
    }
}
