//! The limits of a cache, each with a name, a unit and a default, and the clock it reads.

use std::{
    fmt,
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use antares_abi::LIBRARY_BYTES_MAX;

use crate::CacheError;

const MIB: u64 = 1 << 20;

/// What files of sled need to work at all, twice over for a rebuild.
const DISK_BYTES_MIN: u64 = 16 * MIB;

/// Default of [`CacheConfig::budget_bytes`].
pub const DEFAULT_BUDGET_BYTES: u64 = 2 << 30;

/// Where the cache lives and how much it may hold.
#[derive(Clone, Debug)]
pub struct CacheConfig {
    /// Directory of this cache alone; made when absent. One process at a time may use it.
    pub dir: PathBuf,
    /// Disk, in bytes, that the cache may use. Each byte stored is charged as the three bytes that it comes
    /// to take in files of sled. Plan the volume at twice this, which is the hard limit (or 16 MiB): a
    /// rebuild writes the live entries once more. Default 2 GiB.
    pub budget_bytes: u64,
    /// Eviction starts when live bytes would pass this percentage of the budget. Default 90.
    pub high_watermark_percent: u8,
    /// Eviction, once started, goes down to this percentage of the budget. Default 80.
    pub low_watermark_percent: u8,
    /// Largest single entry, in bytes; also the most that a read allocates. Default 64 MiB.
    pub entry_bytes_max: u64,
    /// Free bytes of the file system under which nothing more is stored. Default 64 MiB.
    pub free_bytes_min: u64,
    /// Memory for sled's page cache, in bytes. Default 32 MiB.
    pub page_cache_bytes: u64,
    /// Disk use, in bytes, under which being large for the live entries is no reason for a rebuild. Default
    /// 64 MiB.
    pub rebuild_bytes_min: u64,
    /// Remembered compile failures at most. Default 10,000.
    pub failures_max: usize,
    /// How long to wait for another process to release the directory. Default 5 s.
    pub lock_wait: Duration,
    /// How long sled may take to open before its files go to quarantine. Default 30 s.
    pub open_timeout: Duration,
    /// Accept network, FUSE and overlay file systems, whose locks and syncs cannot be relied on. Default
    /// false.
    pub allow_any_filesystem: bool,
    /// The clock for the lifetimes of failures. Default [`SystemClock`].
    pub clock: Arc<dyn Clock>,
}

/// Source of the wall-clock time; tests bring their own.
pub trait Clock: fmt::Debug + Send + Sync {
    /// The time now. It may jump in both directions; the cache copes.
    fn now(&self) -> SystemTime;
}

/// The clock of the machine.
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

    /// Refuses values that make no sense, naming the field.
    ///
    /// # Errors
    /// [`CacheError::Config`] with the field and why.
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

    /// Bytes that the directory may take on disk: nothing more is stored beyond.
    pub(crate) fn disk_bytes_max(&self) -> u64 {
        self.budget_bytes.saturating_mul(2).max(DISK_BYTES_MIN)
    }

    /// Live bytes at which eviction starts.
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
    // Divided first: a budget near 2^64 must not overflow, and the watermark may be a few bytes off.
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
