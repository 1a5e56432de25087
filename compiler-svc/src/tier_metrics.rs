//! What the tiers count.

use std::{sync::Arc, time::Instant};

use antares_serve::{Metrics, set_gauge, set_total};
use antares_tier::{BreakerState, FailureKind, Memory, Shared};
use prometheus::{HistogramVec, IntCounterVec};
use strum::{IntoStaticStr, VariantNames};

/// Bounds of reads, seconds: from memory to an object store far away.
const READ_SECONDS: &[f64] =
    &[0.000_01, 0.000_1, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5];

/// A tier.
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
            "Reads of entries by tier and what they gave; a tier is read if those above it had no entry.",
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

    /// A read of a tier whose own numbers are not exported.
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
        "Writes to the shared tier by what became of them; those retried are counted once more when they end.",
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
        for (result, total) in [
            ("hit", now.hits),
            ("miss", now.misses),
            ("damaged", now.damaged),
            ("skipped", now.skipped),
            ("late", now.late),
            ("failed", now.failed),
        ] {
            set_total(&reads.with_label_values(&[Level::Shared.into_str(), result]), total);
        }
        for (result, total) in [
            ("done", now.uploads.done),
            ("present", now.uploads.present),
            ("retried", now.uploads.retried),
            ("expired", now.uploads.expired),
            ("dropped", now.uploads.dropped),
        ] {
            set_total(&writes.with_label_values(&[result]), total);
        }
        for (kind, total) in FailureKind::VARIANTS.iter().zip(now.failures) {
            set_total(&failures.with_label_values(&[kind]), total);
        }
        set_gauge(&waiting, now.uploads.waiting);
        set_gauge(&waiting_bytes, now.uploads.waiting_bytes);
        for state in BreakerState::VARIANTS {
            breaker.with_label_values(&[state]).set((*state == now.breaker.into_str()).into());
        }
        set_gauge(&held, memory.bytes());
    });
}
