//! Metrics of the compiler service.

use std::sync::Arc;

use antares_abi::CodeTier;
use antares_cache::{CacheState, CacheStats, Space};
use antares_serve::{
    COMPILE_SECONDS, Counted, MetricRow, Metrics, RUN_SECONDS, add_saturating, set_gauge, set_total,
};
use prometheus::{Histogram, IntCounter, IntCounterVec, IntGauge};
use strum::{IntoStaticStr, VariantArray as _, VariantNames};

use crate::artifact::{Artifact, CompileError};

/// Result of a full compile that follows a baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub(crate) enum FollowerResult {
    Done,
    Failed,
    /// The queue was full; the script's next run requests it again.
    Dropped,
}

/// Result of a run's feedback.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub(crate) enum HintsResult {
    /// The next compile uses it.
    Learnt,
    /// It was not new.
    Known,
    /// The script's hints changed too often.
    LeftAlone,
    /// The store failed.
    NotStored,
}

/// Metrics of compiles.
#[derive(Clone, Debug)]
pub(crate) struct CompilerMetrics {
    compiles: IntCounterVec,
    seconds: Histogram,
    baselines: IntCounterVec,
    baseline_seconds: Histogram,
    followers: IntCounterVec,
    hints: IntCounterVec,
    pub(crate) withheld: IntCounter,
    unproved: IntCounter,
    refused_orders: IntCounter,
    pub(crate) queue_depth: IntGauge,
}

impl CompilerMetrics {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        let queue = metrics.gauges("antares_queue_depth", "Work that waits for a worker.", &["role"]);
        let by_result =
            |name: &str, help: &str, results: &[&str]| metrics.counters_of(name, help, "result", results);
        Self {
            compiles: by_result("antares_compiles_total", "Full compiles by how they ended.", &RESULTS),
            baselines: by_result("antares_baseline_compiles_total", "Baseline compiles by how they ended.", &RESULTS),
            baseline_seconds: metrics.histogram(
                "antares_baseline_compile_seconds",
                "Wall time of baseline compiles that gave an artifact, as the worker measured it.",
                RUN_SECONDS,
            ),
            followers: by_result(
                "antares_follower_compiles_total",
                "Full compiles that followed a baseline, by how they ended.",
                FollowerResult::VARIANTS,
            ),
            hints: by_result(
                "antares_hints_total",
                "Reports of bailouts to unknown targets, by result.",
                HintsResult::VARIANTS,
            ),
            withheld: metrics.counter(
                "antares_compiles_withheld_total",
                "Compiles that were not tried, since they have failed and nothing has changed.",
            ),
            unproved: metrics.counter(
                "antares_compile_unproved_total",
                "Functions of which the verifier refused the optimized form: their scripts were compiled from the plain one.",
            ),
            refused_orders: metrics.counter(
                "antares_compile_orders_refused_total",
                "Blocks whose new instruction order failed its proof and that keep LLVM's order.",
            ),
            seconds: metrics.histogram(
                "antares_compile_seconds",
                "Wall time of full compiles that gave an artifact, as the worker measured it.",
                COMPILE_SECONDS,
            ),
            queue_depth: queue.with_label_values(&["compile"]),
        }
    }

    pub(crate) fn record_follower(&self, result: FollowerResult) {
        self.followers.with_label_values(&[result.into_str()]).inc();
    }

    pub(crate) fn record_hints(&self, result: HintsResult) {
        self.hints.with_label_values(&[result.into_str()]).inc();
    }

    /// Counts a compile by its result: as cancelled, if there is none.
    pub(crate) fn begin(&self, tier: CodeTier) -> UnderWay {
        UnderWay { metrics: self.clone(), tier, result: CANCELLED }
    }

    /// Counts work that waits for a worker, until dropped.
    pub(crate) fn waits(&self) -> Counted {
        Counted::one_in(&self.queue_depth)
    }

    pub(crate) fn export_cache(&self, metrics: &Metrics, read: impl Fn() -> CacheStats + Send + 'static) {
        let per_space = |name: &str, help: &str| metrics.counters(name, help, &["space"]);
        let hits = per_space("antares_cache_hits_total", "Reads answered with verified bytes.");
        let misses = per_space("antares_cache_misses_total", "Reads answered with nothing.");
        let entries = metrics.gauges("antares_cache_entries", "Entries stored.", &["space"]);
        let charged = metrics.gauges(
            "antares_cache_charged_bytes",
            "Bytes that entries count against the budget: three bytes of disk for each stored byte.",
            &["space"],
        );
        let state = metrics.gauges("antares_cache_state", "1 at the state that the store is in.", &["state"]);
        metrics.watch(CACHE, move || {
            let now = read();
            for (space, name) in [(Space::Script, "script"), (Space::Artifact, "artifact")] {
                set_total(&hits.with_label_values(&[name]), now.hits.of(space));
                set_total(&misses.with_label_values(&[name]), now.misses.of(space));
                set_gauge(&entries.with_label_values(&[name]), now.entries.of(space));
                set_gauge(&charged.with_label_values(&[name]), now.charged.of(space));
            }
            for known in CacheState::VARIANTS {
                state.with_label_values(&[known.into_str()]).set((*known == now.state).into());
            }
            now
        });
    }
}

/// The metrics of the store that have no labels.
const CACHE: [MetricRow<CacheStats>; 10] = [
    ("antares_cache_bytes", "Payload bytes stored.", |now| now.logical_bytes),
    ("antares_cache_budget_bytes", "Budget of the store's entries; see charged bytes.", |now| {
        now.budget_bytes
    }),
    ("antares_cache_disk_bytes", "Bytes that the cache takes on disk.", |now| now.disk_bytes),
    ("antares_cache_blobs", "Blob files; anything but zero is a bug.", |now| now.blobs),
    ("antares_cache_corrupt_total", "Entries dropped because they did not verify.", |now| now.corrupt),
    ("antares_cache_evictions_total", "Entries evicted to keep the budget.", |now| now.evictions),
    (
        "antares_cache_rejected_total",
        "Entries refused: too large, the budget in use, the volume full, or the store failed.",
        |now| now.rejected,
    ),
    ("antares_cache_store_errors_total", "Errors of the store under the cache.", |now| now.store_errors),
    (
        "antares_cache_set_aside_total",
        "Stores that were damaged and set aside; the cache began empty.",
        |now| now.set_aside,
    ),
    ("antares_cache_rebuilds_total", "Rebuilds of the store into a new directory.", |now| now.rebuilds),
];

/// A compile in progress.
pub(crate) struct UnderWay {
    metrics: CompilerMetrics,
    tier: CodeTier,
    result: &'static str,
}

impl UnderWay {
    /// Records its result.
    pub(crate) fn end(mut self, made: &Result<Arc<Artifact>, CompileError>) {
        self.result = match made {
            Ok(artifact) => {
                if let Some(summary) = &artifact.made {
                    let times = match self.tier {
                        CodeTier::Baseline => &self.metrics.baseline_seconds,
                        CodeTier::Full => &self.metrics.seconds,
                    };
                    times.observe(seconds(summary.compile_ms));
                    add_saturating(&self.metrics.unproved, summary.unproved_functions);
                    add_saturating(&self.metrics.refused_orders, summary.refused_orders);
                }
                "done"
            }
            Err(error) => result_of(error),
        };
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let compiles = match self.tier {
            CodeTier::Baseline => &self.metrics.baselines,
            CodeTier::Full => &self.metrics.compiles,
        };
        compiles.with_label_values(&[self.result]).inc();
    }
}

/// All callers had gone away.
const CANCELLED: &str = "cancelled";

/// All values of the label `result`.
const RESULTS: [&str; 8] =
    ["done", "refused", "timeout", "busy", "worker_lost", "violation", "failed", CANCELLED];

pub(crate) fn result_of(error: &CompileError) -> &'static str {
    match error {
        CompileError::Refused { .. } => "refused",
        CompileError::Timeout { .. } => "timeout",
        CompileError::Busy { .. } | CompileError::Quota(_) => "busy",
        CompileError::WorkerLost { .. } => "worker_lost",
        CompileError::Violation { .. } => "violation",
        // A missing script is reported before a compile starts.
        CompileError::Failed { .. } | CompileError::Internal | CompileError::ScriptNotFound(_) => "failed",
    }
}

#[expect(clippy::cast_precision_loss, reason = "a histogram of times that are far below 2^53 ms")]
fn seconds(milliseconds: u64) -> f64 {
    milliseconds as f64 / 1_000.0
}
