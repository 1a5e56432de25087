//! The tiers of entries: memory, the local store, the shared tier. Entries found further down fill the tiers
//! above.
//!
//! Without a shared tier there is only the local store.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use antares_abi::Sha256Digest;
use antares_cache::Space;
use antares_config::{Config, SharedTier};
use antares_serve::{Metrics, set_gauge, set_total};
use antares_tier::{
    BreakerState, FailureKind, LocationError, Memory, Shared, SharedConfig, StoreLocation, memory,
};
use bytes::Bytes;
use parking_lot::Mutex;
use prometheus::{HistogramVec, IntCounterVec};
use strum::{IntoStaticStr, VariantNames};

use crate::limits::TIER_MEMORY_BYTES_MAX;

/// Interval between queries for others' hints of a script.
const LOOK_UP_AGAIN: Duration = Duration::from_secs(60);

/// Scripts with a remembered query time.
const LOOKUPS_MAX: usize = 1 << 16;

/// Origin of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// This process or its disk: already verified.
    Here,
    /// The shared tier: known to be intact, but unverified.
    Shared,
}

/// The tiers around the local store.
#[derive(Debug)]
pub(crate) struct Tiers(pub(crate) Option<Around>);

/// The tiers other than the local store.
#[derive(Debug)]
pub(crate) struct Around {
    pub(crate) memory: Arc<Memory>,
    shared: Shared,
    trusts_writers: bool,
    pub(crate) metrics: TierMetrics,
    pub(crate) asked: LearnLookups,
}

/// Times of the last queries for others' hints of a script.
#[derive(Debug, Default)]
pub(crate) struct LearnLookups(Mutex<HashMap<Sha256Digest, Instant>>);

impl LearnLookups {
    pub(crate) fn is_due(&self, key: Sha256Digest) -> bool {
        let mut asked = self.0.lock();
        if asked.get(&key).is_some_and(|last| last.elapsed() < LOOK_UP_AGAIN) {
            return false;
        }
        if asked.len() >= LOOKUPS_MAX {
            asked.clear();
        }
        asked.insert(key, Instant::now());
        true
    }
}

/// Limits of the shared tier.
fn limits(config: &Config, tier: &SharedTier) -> SharedConfig {
    let (get_time_max, entry_bytes_max) = (tier.get_time_max, config.cache.entry_bytes_max());
    SharedConfig { get_time_max, entry_bytes_max, ..SharedConfig::default() }
}

impl Tiers {
    /// The tiers in `config`. Sends no requests.
    pub(crate) fn open(config: &Config, metrics: &Metrics) -> Result<Self, LocationError> {
        let Some(tier) = &config.shared else { return Ok(Self(None)) };
        let shared = Shared::open(StoreLocation::open(&tier.url)?, limits(config, tier));
        if tier.trusts_writers {
            let url = &tier.url;
            tracing::warn!(
                url,
                "signing.keys is empty: native code is accepted from anyone who may write to the shared tier"
            );
        }
        let memory = Arc::new(memory(TIER_MEMORY_BYTES_MAX));
        let metrics = TierMetrics::new(metrics, shared.clone(), memory.clone());
        let (trusts_writers, asked) = (tier.trusts_writers, LearnLookups::default());
        Ok(Self(Some(Around { memory, shared, trusts_writers, metrics, asked })))
    }

    /// Whether writers of the shared tier are trusted without a signature known here.
    pub(crate) fn trusts_writers(&self) -> bool {
        self.0.as_ref().is_some_and(|around| around.trusts_writers)
    }

    /// Queues a new entry for the shared tier.
    pub(crate) fn offer(&self, space: Space, key: [u8; 32], bytes: Bytes) {
        if let Some(around) = &self.0 {
            around.memory.insert((space, key), bytes.clone());
            around.shared.offer(space, key, bytes, true);
        }
    }

    /// The same for an entry that may exist there.
    pub(crate) fn offer_if_unknown(&self, space: Space, key: [u8; 32], bytes: Bytes) {
        if let Some(around) = &self.0
            && !around.shared.knows(space, key)
        {
            around.shared.offer(space, key, bytes, false);
        }
    }

    pub(crate) fn forget(&self, space: Space, key: [u8; 32]) {
        if let Some(around) = &self.0 {
            around.memory.remove(&(space, key));
        }
    }

    pub(crate) fn forget_all(&self) {
        if let Some(around) = &self.0 {
            around.memory.clear();
        }
    }

    /// The shared tier, if any.
    pub(crate) fn shared(&self) -> Option<&Shared> {
        self.0.as_ref().map(|around| &around.shared)
    }
}

impl Around {
    /// The shared tier's entry; a failed request is a miss, and counted.
    pub(crate) async fn below(&self, space: Space, key: Sha256Digest) -> Option<Bytes> {
        let started = Instant::now();
        match self.shared.get(space, key.0).await {
            Ok(found) => {
                self.metrics.record_time(Level::Shared, found.is_some(), started);
                found
            }
            Err(error) => {
                tracing::debug!(space = space.name(), %key, %error, "the shared tier gives no answer");
                None
            }
        }
    }
}

/// Bounds of reads, seconds: from memory to a remote object store.
const READ_SECONDS: &[f64] =
    &[0.000_01, 0.000_1, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5];

#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub(crate) enum Level {
    Memory,
    Sled,
    Shared,
}

/// Counters by tier.
#[derive(Clone, Debug)]
pub(crate) struct TierMetrics {
    reads: IntCounterVec,
    seconds: HistogramVec,
}

impl TierMetrics {
    pub(crate) fn new(metrics: &Metrics, shared: Shared, memory: Arc<Memory>) -> Self {
        let reads = metrics.counters(
            "antares_tier_reads_total",
            "Reads of entries by tier and result; a tier is read if those above it had no entry.",
            &["tier", "result"],
        );
        let seconds = metrics.histograms(
            "antares_tier_read_seconds",
            "Time of reads that gave an entry, by tier.",
            READ_SECONDS,
            &["tier"],
        );
        for level in Level::VARIANTS {
            seconds.with_label_values(&[level]);
            for result in ["hit", "miss"] {
                reads.with_label_values(&[level, result]);
            }
        }
        export(metrics, reads.clone(), shared, memory);
        Self { reads, seconds }
    }

    /// Records a read of a tier that exports no statistics of its own.
    pub(crate) fn record(&self, level: Level, is_hit: bool, started: Instant) {
        self.reads.with_label_values(&[level.into_str(), if is_hit { "hit" } else { "miss" }]).inc();
        self.record_time(level, is_hit, started);
    }

    pub(crate) fn record_time(&self, level: Level, is_hit: bool, started: Instant) {
        if is_hit {
            self.seconds.with_label_values(&[level.into_str()]).observe(started.elapsed().as_secs_f64());
        }
    }
}

fn export(metrics: &Metrics, reads: IntCounterVec, shared: Shared, memory: Arc<Memory>) {
    let writes = metrics.counters(
        "antares_tier_writes_total",
        "Writes to the shared tier, by result; retried writes are counted again when they end.",
        &["result"],
    );
    let failures = metrics.counters(
        "antares_tier_failures_total",
        "Requests to the shared tier (reads, writes, look-ups, removals) that failed, by why.",
        &["kind"],
    );
    let waiting =
        metrics.gauge("antares_tier_writes_waiting", "Entries that wait to be written to the shared tier.");
    let waiting_bytes = metrics.gauge("antares_tier_writes_waiting_bytes", "Their bytes.");
    let breaker = metrics.gauges(
        "antares_tier_breaker_state",
        "1 at the state of the breaker before the shared tier.",
        &["state"],
    );
    let held = metrics.gauge("antares_tier_memory_bytes", "Bytes of entries in memory.");
    metrics.before_scrape(move || {
        let now = shared.stats();
        let (level, written) = (Level::Shared.into_str(), now.uploads);
        let set_reads = |result, total| set_total(&reads.with_label_values(&[level, result]), total);
        let set_writes = |result, total| set_total(&writes.with_label_values(&[result]), total);
        set_reads("hit", now.hits);
        set_reads("miss", now.misses);
        set_reads("damaged", now.damaged);
        set_reads("skipped", now.skipped);
        set_reads("late", now.late);
        set_reads("failed", now.failed);
        set_writes("done", written.done);
        set_writes("present", written.present);
        set_writes("retried", written.retried);
        set_writes("expired", written.expired);
        set_writes("dropped", written.dropped);
        for (kind, total) in FailureKind::VARIANTS.iter().zip(now.failures) {
            set_total(&failures.with_label_values(&[kind]), total);
        }
        set_gauge(&waiting, written.waiting);
        set_gauge(&waiting_bytes, written.waiting_bytes);
        for state in BreakerState::VARIANTS {
            breaker.with_label_values(&[state]).set((*state == now.breaker.into_str()).into());
        }
        set_gauge(&held, memory.weight());
    });
}

#[cfg(test)]
mod tests {
    use antares_config::{ConfigFile, Role};

    use super::*;

    /// Both crates define them, and neither depends on the other.
    #[test]
    fn defaults_of_the_configuration_are_those_of_the_tier() {
        let file: ConfigFile = "shared.url = \"s3://bucket\"".parse().unwrap();
        let config = file.check(Role::Compiler, &[]).unwrap();
        assert_eq!(limits(&config, config.shared.as_ref().unwrap()), SharedConfig::default());
    }
}
