//! The limits of a cache, with units and defaults, and its clock.

use std::{
    fmt,
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use antares_abi::LIBRARY_BYTES_MAX;

use crate::CacheError;

const MIB: u64 = 1 << 20;

/// The minimum disk use of sled's files, doubled for a rebuild.
const DISK_BYTES_MIN: u64 = 16 * MIB;

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
    /// Eviction starts when live bytes would exceed this percentage of the budget. Default 90.
    pub high_watermark_percent: u8,
    /// Eviction stops at this percentage of the budget. Default 80.
    pub low_watermark_percent: u8,
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
    /// The clock for the lifetimes of failures. Default [`SystemClock`].
    pub clock: Arc<dyn Clock>,
}

/// Source of the wall-clock time; tests provide their own.
pub trait Clock: fmt::Debug + Send + Sync {
    /// The current time. The cache tolerates jumps in both directions.
    fn now(&self) -> SystemTime;
}

/// The system clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}

impl CacheConfig {
    /// A configuration with the defaults.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>, budget_bytes: u64) -> Self {
        Self {
            dir: dir.into(),
            budget_bytes,
            high_watermark_percent: 90,
            low_watermark_percent: 80,
            entry_bytes_max: LIBRARY_BYTES_MAX,
            free_bytes_min: 64 * MIB,
            page_cache_bytes: 32 * MIB,
            rebuild_bytes_min: 64 * MIB,
            failures_max: 10_000,
            lock_wait: Duration::from_secs(5),
            open_timeout: Duration::from_secs(30),
            allow_any_filesystem: false,
            clock: Arc::new(SystemClock),
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
        if self.high_watermark_percent == 0 || self.high_watermark_percent > 100 {
            return refuse("high_watermark_percent", "must be 1 to 100");
        }
        if self.low_watermark_percent == 0 || self.low_watermark_percent > self.high_watermark_percent {
            return refuse("low_watermark_percent", "must be 1 to high_watermark_percent");
        }
        if self.entry_bytes_max == 0 {
            return refuse("entry_bytes_max", "must not be zero");
        }
        if self.page_cache_bytes < MIB {
            return refuse("page_cache_bytes", "must be at least 1 MiB");
        }
        if self.failures_max == 0 {
            return refuse("failures_max", "must not be zero");
        }
        if self.open_timeout.is_zero() {
            return refuse("open_timeout", "must not be zero");
        }
        Ok(())
    }

    /// Hard limit of the directory's disk use; beyond it, nothing is stored.
    pub(crate) fn disk_bytes_max(&self) -> u64 {
        self.budget_bytes.saturating_mul(2).max(DISK_BYTES_MIN)
    }

    /// Live bytes above which eviction starts.
    pub(crate) fn high_bytes(&self) -> u64 {
        percent_of(self.budget_bytes, self.high_watermark_percent)
    }

    /// Live bytes at which eviction stops.
    pub(crate) fn low_bytes(&self) -> u64 {
        percent_of(self.budget_bytes, self.low_watermark_percent)
    }

    /// Seconds since 1970 on the configured clock; zero for a clock set before that.
    pub(crate) fn unix_seconds(&self) -> u64 {
        self.clock.now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
    }
}

fn percent_of(bytes: u64, percent: u8) -> u64 {
    // Divide first: a budget near 2^64 must not overflow, and the watermark may be a few bytes off.
    bytes / 100 * u64::from(percent)
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
        refused(|c| c.high_watermark_percent = 101, "high_watermark_percent");
        refused(|c| c.low_watermark_percent = 95, "low_watermark_percent");
        refused(|c| c.low_watermark_percent = 0, "low_watermark_percent");
        refused(|c| c.entry_bytes_max = 0, "entry_bytes_max");
        refused(|c| c.page_cache_bytes = 0, "page_cache_bytes");
        refused(|c| c.failures_max = 0, "failures_max");
        refused(|c| c.open_timeout = Duration::ZERO, "open_timeout");
    }

    #[test]
    fn watermarks_do_not_overflow() {
        let config = CacheConfig::new("/nowhere", u64::MAX);
        assert!(config.low_bytes() < config.high_bytes());
        assert!(config.high_bytes() < config.budget_bytes);
    }
}
