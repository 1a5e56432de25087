//! Metrics of the runner service.

use std::time::Duration;

use antares_abi::{BailoutReason, CodeTier};
use antares_pool::job::{RunOutcome, VerifyOutcome};
use antares_serve::{Counted, MetricRow, Metrics, RUN_SECONDS, add_saturating};
use antares_trust::Refusal;
use prometheus::{Histogram, IntCounter, IntCounterVec, IntGauge};
use strum::{IntoStaticStr, VariantNames};

use crate::{
    ended::{Ended, ExecuteError, Execution, Verified},
    profiles::store::ProfilesStats,
    source::Fallback,
    tenant_cache::HotStats,
};

/// All values of the label `outcome`: verdicts, then reasons for having none.
const OUTCOMES: [&str; 11] = [
    "exit",
    "error",
    "cycles_exceeded",
    "deadline_exceeded",
    "queue_full",
    "quota",
    "sandbox_violation",
    "worker_lost",
    "call_deadline",
    "no_artifact",
    "failed",
];

/// All values of the label `outcome` of verifications: verdicts, then reasons for having none.
const VERIFICATIONS: [&str; 11] = [
    "ok",
    "failed",
    "queue_full",
    "quota",
    "deadline_exceeded",
    "sandbox_violation",
    "refused",
    "worker_lost",
    "call_deadline",
    "no_artifact",
    "internal",
];

/// Result of sending a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub(crate) enum PushResult {
    Sent,
    /// The receiver refused it.
    Failed,
    /// Not sent, because the receiver refused others or time was up.
    Dropped,
}

/// Result for a program found hot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub(crate) enum HotResult {
    Compiled,
    Failed,
    /// The queue was full.
    Dropped,
}

/// Metrics of executions.
#[derive(Clone, Debug)]
pub(crate) struct RunnerMetrics {
    executions: IntCounterVec,
    verifications: IntCounterVec,
    native_cycles: IntCounter,
    interpreted_cycles: IntCounter,
    run_seconds: Histogram,
    load_seconds: Histogram,
    queue_seconds: Histogram,
    overhead_seconds: Histogram,
    restarts: IntCounterVec,
    native_runs: IntCounterVec,
    fallbacks: IntCounterVec,
    hot: IntCounterVec,
    queue_depth: IntGauge,
    profiled_runs: IntCounterVec,
    pushes: IntCounterVec,
    profile_mismatches: IntCounter,
}

/// Artifacts refused for their manifests.
pub(crate) fn refused_artifacts(metrics: &Metrics) -> IntCounterVec {
    metrics.counters_of(
        "antares_artifacts_refused_total",
        "Artifacts that were refused for their manifests, by why.",
        "reason",
        Refusal::VARIANTS,
    )
}

impl RunnerMetrics {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        let by = |name: &str, help: &str, label: &str, values: &[&str]| {
            metrics.counters_of(name, help, label, values)
        };
        let times = |name: &str, help: &str| metrics.histogram(name, help, RUN_SECONDS);
        let help = "Guest cycles by the tier that ran them.";
        let cycles = metrics.counters("antares_guest_cycles_total", help, &["tier"]);
        let queue = metrics.gauges("antares_queue_depth", "Work that waits for a worker.", &["role"]);
        Self {
            executions: by("antares_executions_total", "Executions by how they ended.", "outcome", &OUTCOMES),
            verifications: by(
                "antares_verifications_total",
                "Verifications of transactions by how they ended.",
                "outcome",
                &VERIFICATIONS,
            ),
            native_cycles: cycles.with_label_values(&["native"]),
            interpreted_cycles: cycles.with_label_values(&["interpreter"]),
            run_seconds: times("antares_run_seconds", "Wall time of runs, in the worker."),
            load_seconds: times(
                "antares_load_seconds",
                "Wall time of loading library and ELF, in the worker.",
            ),
            queue_seconds: times("antares_queue_seconds", "Time that executions waited for a worker."),
            overhead_seconds: times(
                "antares_overhead_seconds",
                "Wall time of executions outside the run itself, without those that waited for a compile.",
            ),
            restarts: by(
                "antares_native_exits_total",
                "Executions and script groups that bailed out of native code to the interpreter, by reason.",
                "reason",
                &BailoutReason::ALL.map(BailoutReason::name),
            ),
            native_runs: by(
                "antares_native_runs_total",
                "Runs with native code (for verifications, programs with native code) by the generator that made it.",
                "code_tier",
                &CodeTier::ALL.map(CodeTier::name),
            ),
            fallbacks: by(
                "antares_fallbacks_total",
                "Executions of tier auto that had no native code, by why.",
                "reason",
                Fallback::VARIANTS,
            ),
            hot: by(
                "antares_hot_programs_total",
                "Hot programs without native code, by result.",
                "result",
                HotResult::VARIANTS,
            ),
            queue_depth: queue.with_label_values(&["run"]),
            profiled_runs: by(
                "antares_profiled_runs_total",
                "Runs that went into profiles, by whether a sample hit them.",
                "sampled",
                &["yes", "no"],
            ),
            pushes: by(
                "antares_profile_pushes_total",
                "Profiles that were to be sent to the collector, by result.",
                "result",
                PushResult::VARIANTS,
            ),
            profile_mismatches: metrics.counter(
                "antares_profile_cycle_mismatch_total",
                "Runs whose samples do not add up to their cycles; above 0, Antares has a bug.",
            ),
        }
    }

    pub(crate) fn waiting(&self) -> Counted {
        Counted::one_in(&self.queue_depth)
    }

    /// Calls waiting for a worker.
    pub(crate) fn queue_depth(&self) -> u64 {
        u64::try_from(self.queue_depth.get()).unwrap_or(0)
    }

    pub(crate) fn record_fallback(&self, fallback: Fallback) {
        self.fallbacks.with_label_values(&[fallback.into_str()]).inc();
    }

    /// Records programs with native code that take part in `runs` runs.
    pub(crate) fn record_native(&self, tiers: impl Iterator<Item = CodeTier>, runs: u64) {
        tiers.for_each(|tier| self.native_runs.with_label_values(&[tier.name()]).inc_by(runs));
    }

    pub(crate) fn record_hot(&self, result: HotResult) {
        self.hot.with_label_values(&[result.into_str()]).inc();
    }

    /// Records an execution that took `total` from request to response.
    pub(crate) fn record(&self, result: &Result<Execution, ExecuteError>, total: Duration) {
        match result {
            Ok(execution) => {
                self.record_queue(execution.queue);
                self.record_ended(&execution.ended);
                self.record_overhead(execution, total);
            }
            Err(error) => self.record_error(error),
        }
    }

    pub(crate) fn record_error(&self, error: &ExecuteError) {
        self.executions.with_label_values(&[error_name(error)]).inc();
    }

    /// Records an execution's time outside its run. A compile that it waited for has its own metric.
    fn record_overhead(&self, execution: &Execution, total: Duration) {
        let is_compiled = execution.native.is_some_and(|origin| origin.made_ms.is_some());
        if let Ended::Reported(report) = &execution.ended
            && !is_compiled
        {
            let overhead = total.saturating_sub(Duration::from_micros(report.run_us));
            self.overhead_seconds.observe(overhead.as_secs_f64());
        }
    }

    pub(crate) fn record_queue(&self, queue: Duration) {
        self.queue_seconds.observe(queue.as_secs_f64());
    }

    pub(crate) fn record_ended(&self, ended: &Ended) {
        self.executions.with_label_values(&[ended_name(ended)]).inc();
        if let Ended::Reported(report) = ended {
            add_saturating(&self.native_cycles, report.native_cycles);
            add_saturating(&self.interpreted_cycles, report.interpreted_cycles);
            self.run_seconds.observe(Duration::from_micros(report.run_us).as_secs_f64());
            self.load_seconds.observe(Duration::from_micros(report.load_us).as_secs_f64());
            self.record_restart(report.restarted.map(BailoutReason::name));
        }
    }

    /// Records a run, or a script group of a transaction, that restarted in the interpreter. The worker
    /// supplies the reason.
    fn record_restart(&self, reason: Option<&str>) {
        let known =
            reason.and_then(|reason| BailoutReason::ALL.into_iter().find(|known| known.name() == reason));
        if reason.is_some() {
            self.restarts.with_label_values(&[known.map_or("other", |known| known.name())]).inc();
        }
    }

    pub(crate) fn record_verification(&self, result: Result<(&Ended<Verified>, Duration), &ExecuteError>) {
        self.verifications.with_label_values(&[verification_name(result.map(|(ended, _)| ended))]).inc();
        let Ok((ended, queue)) = result else { return };
        self.record_queue(queue);
        if let Ended::Reported(verified) = ended {
            for group in &verified.groups {
                add_saturating(&self.native_cycles, group.native_cycles);
                add_saturating(&self.interpreted_cycles, group.interpreted_cycles);
                self.record_restart(group.restarted.as_deref());
            }
            self.run_seconds.observe(Duration::from_micros(verified.run_us).as_secs_f64());
            self.load_seconds.observe(Duration::from_micros(verified.read_us).as_secs_f64());
        }
    }

    /// Records a run that entered the profiles; `wrong` is the error of its samples in cycles.
    pub(crate) fn record_samples(&self, is_sampled: bool, wrong: u64) {
        let name = if is_sampled { "yes" } else { "no" };
        self.profiled_runs.with_label_values(&[name]).inc();
        self.profile_mismatches.inc_by(u64::from(wrong > 0));
    }

    /// Records a profile to be pushed.
    pub(crate) fn record_push(&self, result: PushResult) {
        self.pushes.with_label_values(&[result.into_str()]).inc();
    }
}

/// Exports the size of the profiles and their losses.
pub(crate) fn export_profiles(metrics: &Metrics, read: impl Fn() -> ProfilesStats + Send + 'static) {
    let rows: [MetricRow<ProfilesStats>; 3] = [
        ("antares_profile_stacks", "Stacks of all stored profiles.", |now| now.nodes),
        (
            "antares_profile_windows_dropped_total",
            "Profile windows dropped early to stay within the limit of memory.",
            |now| now.windows_dropped,
        ),
        (
            "antares_profile_unpushed_runs_total",
            "Runs that no push has, because too many scripts and tenants waited for it.",
            |now| now.unpushed,
        ),
    ];
    metrics.watch(rows, read);
}

/// Exports the cached files and the number of barred artifacts.
pub(crate) fn export_ready(metrics: &Metrics, read: impl Fn() -> (HotStats, u64) + Send + 'static) {
    let rows: [MetricRow<(HotStats, u64)>; 5] = [
        ("antares_ready_bytes", "Bytes of scripts and libraries cached in memory.", |(now, _)| now.bytes),
        ("antares_ready_entries", "Scripts and libraries cached in memory.", |(now, _)| now.entries),
        ("antares_ready_hits_total", "Scripts and libraries that were ready in memory.", |(now, _)| now.hits),
        ("antares_ready_misses_total", "Scripts and libraries that were not.", |(now, _)| now.misses),
        (
            "antares_artifacts_quarantined",
            "Artifacts that are not run any more: a worker that ran one violated the sandbox policy.",
            |(_, barred)| *barred,
        ),
    ];
    metrics.watch(rows, read);
}

fn error_name(error: &ExecuteError) -> &'static str {
    match error {
        ExecuteError::WorkerLost { .. } => "worker_lost",
        ExecuteError::CallDeadline => "call_deadline",
        ExecuteError::Source(_) => "no_artifact",
        ExecuteError::Transaction { .. } => "refused",
        ExecuteError::QueueFull => "queue_full",
        ExecuteError::Quota(_) => "quota",
        ExecuteError::Busy
        | ExecuteError::Pool(_)
        | ExecuteError::FalseReport { .. }
        | ExecuteError::Internal => "failed",
    }
}

/// Name of a verification's result for metrics and logs.
pub(crate) fn verification_name(result: Result<&Ended<Verified>, &ExecuteError>) -> &'static str {
    match result {
        Ok(ended) => verified_name(ended),
        Err(error) => match error_name(error) {
            "failed" => "internal",
            name => name,
        },
    }
}

fn verified_name(ended: &Ended<Verified>) -> &'static str {
    match ended {
        Ended::Reported(verified) => match verified.outcome {
            VerifyOutcome::Ok => "ok",
            VerifyOutcome::Failed | VerifyOutcome::NotRun => "failed",
        },
        Ended::DeadlineExceeded => "deadline_exceeded",
        Ended::SandboxViolation { .. } => "sandbox_violation",
    }
}

/// Name of a verdict for metrics and logs.
pub(crate) fn ended_name(ended: &Ended) -> &'static str {
    match ended {
        Ended::Reported(report) => match report.outcome {
            RunOutcome::Exit(_) => "exit",
            RunOutcome::Error { .. } => "error",
            RunOutcome::CyclesExceeded => "cycles_exceeded",
        },
        Ended::DeadlineExceeded => "deadline_exceeded",
        Ended::SandboxViolation { .. } => "sandbox_violation",
    }
}
