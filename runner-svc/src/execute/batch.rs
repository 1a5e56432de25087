//! One script with many inputs: prepared once, then run together in one leased worker.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::race::{Interpreted, RunTimer};
use antares_abi::{CompileOptions, Sha256Digest};
use antares_pool::{
    Pool, Sealed, Verdict,
    job::{BatchJob, RunJob, Tier},
};
use tokio::time::timeout_at;
use tracing::Instrument;

use crate::{
    artifacts::{
        native::{Native, Origin},
        prepare::Prepared,
        ready::Used,
    },
    charge::charge_batch,
    diagnosis::{Diagnosed, diagnose::Failing},
    ended::{Ended, ExecuteError, Found},
    execute::{
        Executor,
        order::{Script, next_salt},
    },
    limits::BATCH_OUTPUT_BYTES_MAX,
    scheduler::lease::{Leased, TimeLimits},
    shadow_runs::BatchAgain,
    source::Fallback,
    tenant::Tenant,
};

/// Settings common to all runs of a batch or a session.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    /// The tenant that runs are charged to.
    pub(crate) tenant: Tenant,
    pub(crate) script: Script,
    pub(crate) options: CompileOptions,
    pub(crate) tier: Tier,
    /// Limit for each run.
    pub(crate) cycles_max: u64,
    /// Limit for each run.
    pub(crate) debug_bytes_max: u64,
    /// Wall time of all runs in one worker.
    pub(crate) run_time: Duration,
    /// Whether to repeat and compare runs.
    pub(crate) recheck: bool,
    /// Whether to explain failed runs.
    pub(crate) diagnosis: bool,
}

/// The arguments of one run.
pub(crate) type Input = Vec<Vec<u8>>;

/// A batch that ended.
pub(crate) struct BatchExecution {
    pub(crate) script: Sha256Digest,
    pub(crate) fetch: Duration,
    pub(crate) runs: BatchRuns,
    /// From its arrival to its end.
    pub(crate) wall: Duration,
}

/// Results of one worker for inputs.
pub(crate) struct BatchRuns {
    /// One for each input; none for unreached inputs.
    pub(crate) results: Vec<Option<Ended>>,
    /// Diagnoses of failed runs, as far as available.
    pub(crate) diagnoses: Vec<Option<Diagnosed>>,
    pub(crate) native: Option<Origin>,
    pub(crate) fallback: Option<Fallback>,
    /// Waiting for the worker, and the transfers to it and back.
    pub(crate) queue: Duration,
    pub(crate) recheck: Option<Found>,
}

impl Executor {
    /// Runs a script with all of `inputs`. Waits like [`Executor::execute`].
    pub(crate) async fn batch(
        &self,
        context: Context,
        inputs: Vec<Input>,
        deadline: Instant,
    ) -> Result<BatchExecution, ExecuteError> {
        let arrived = Instant::now();
        let steps = async {
            let prepared = self.prepare(&context, deadline).await?;
            let runs = self.run_together(&context, &prepared, inputs, deadline).await?;
            let (script, fetch) = (prepared.script.digest, prepared.fetch);
            Ok(BatchExecution { script, fetch, runs, wall: arrived.elapsed() })
        };
        let result = timeout_at(deadline.into(), steps).await.unwrap_or(Err(ExecuteError::CallDeadline));
        if let Err(error) = &result {
            self.metrics.record_error(error);
        }
        result
    }

    /// Fetches the script and its native code.
    pub(crate) async fn prepare(
        &self,
        context: &Context,
        deadline: Instant,
    ) -> Result<Prepared, ExecuteError> {
        self.artifacts
            .prepare(&context.tenant.account, context.script.clone(), context.options, context.tier, deadline)
            .await
    }

    fn job(&self, context: &Context, inputs: Vec<Input>) -> BatchJob {
        BatchJob {
            options: context.options,
            tier: context.tier,
            inputs,
            cycles_max: context.cycles_max,
            debug_bytes_max: context.debug_bytes_max,
            output_bytes_max: BATCH_OUTPUT_BYTES_MAX,
            sample_cycles: self.profiles.sample_cycles,
            sample_salt: next_salt(),
        }
    }

    /// Runs `inputs` in one worker.
    pub(crate) async fn run_together(
        &self,
        context: &Context,
        prepared: &Prepared,
        inputs: Vec<Input>,
        deadline: Instant,
    ) -> Result<BatchRuns, ExecuteError> {
        let account = &context.tenant.account;
        let (slot, queue) =
            self.scheduler.slot(&context.tenant).instrument(tracing::debug_span!("queue")).await?;
        let count = inputs.len();
        let job = self.job(context, inputs);
        let failing = if context.diagnosis { runs_of(&job, &prepared.script.elf) } else { Vec::default() };
        let native = (prepared.native.clone(), prepared.fallback);
        let (native, fallback) = self.artifacts.unless_early_bailout(account, context.tier, native);
        let (elf, learning) = (prepared.script.elf.clone(), native.clone());
        let origin = native.as_ref().map(Native::origin);
        let key = origin.map(|origin| Used::of(account, origin.key));
        let again = || BatchAgain { job: job.clone(), elf: elf.clone() };
        let shadow = key.and_then(|_| self.shadow_runs.draw(context.recheck, count, context.run_time, again));
        self.metrics.record_native(native.iter().map(|native| native.tier), count as u64);
        let run = move |pool: &Pool, until| {
            pool.batch(&job, &elf, native.as_ref().map(|native| &*native.library), until)
        };
        let limits = TimeLimits { run: context.run_time, deadline };
        let leased = self.scheduler.lease(slot, limits, run);
        let cycles_max = context.cycles_max.saturating_mul(count as u64);
        let mut timer = RunTimer::begin(|time| account.ran_for(time, cycles_max));
        let leased = leased.instrument(tracing::debug_span!("worker")).await;
        let Interpreted { answer: leased, began } = timer.heard(leased);
        let leased = leased?;
        charge_batch(account, &leased.answer, count, leased.time(began), context.cycles_max);
        let Leased { mut answer, is_call_s, false_start, slot } = leased;
        drop(slot);
        let reported: u64 = answer.reports.iter().map(|report| report.load_us + report.run_us).sum();
        let way = began.elapsed().saturating_sub(Duration::from_micros(reported));
        let mut recheck = None;
        if let (Some(shadow), Verdict::Done(_)) = (shadow, &answer.verdict) {
            let again =
                self.shadow_runs.compare(&context.tenant, key.as_slice(), shadow, answer.reports).await;
            (answer.reports, recheck) = again;
        }
        let is_all = answer.reports.len() == count;
        let mut results: Vec<_> =
            answer.reports.into_iter().map(|report| Some(Ended::Reported(report))).collect();
        let verdict = answer.verdict.map(|_| ());
        // All requested results are there, however the worker ended afterwards.
        let is_done = is_all && !matches!(verdict, Verdict::WorkerLost { .. });
        if !is_done || false_start.is_some() {
            let leased = Leased { answer: verdict, is_call_s, false_start, slot: None };
            match self.artifacts.judge(leased, key.as_slice())? {
                Ended::Reported(()) => {}
                Ended::DeadlineExceeded => results.push(Some(Ended::DeadlineExceeded)),
                Ended::SandboxViolation { detail } => results.push(Some(Ended::SandboxViolation { detail })),
            }
        }
        self.record(context, prepared.script.digest, learning.as_ref(), &results);
        self.metrics.record_queue(queue);
        results.resize(count, None);
        let diagnoses =
            self.diagnoses.why_batch(&context.tenant, key.as_slice(), failing, &results, deadline).await;
        Ok(BatchRuns { results, diagnoses, native: origin, fallback, queue: queue + way, recheck })
    }

    /// Records how runs of a script with this native code ended, and their feedback.
    fn record(
        &self,
        context: &Context,
        script: Sha256Digest,
        native: Option<&Native>,
        results: &[Option<Ended>],
    ) {
        let account = &context.tenant.account;
        for ended in results.iter().flatten() {
            self.metrics.record_ended(ended);
            self.profiles.keep_run(&context.tenant.name, script, ended);
            if let Ended::Reported(report) = ended {
                self.artifacts.record_end(account, native.map(Native::origin), report);
            }
        }
        // One report is enough: later runs report the other bailouts.
        let leaves = |ended: &&Ended| matches!(ended, Ended::Reported(report) if report.seen.is_some());
        if let Some(ended) = results.iter().flatten().find(leaves) {
            self.artifacts.learn_from(account, native, ended);
        }
    }
}

/// The runs of a batch, each as a single run.
fn runs_of(job: &BatchJob, elf: &Arc<Sealed>) -> Vec<Failing> {
    let run = |args: &Input| {
        let job = RunJob {
            options: job.options,
            tier: Tier::Interpreter,
            args: args.clone(),
            cycles_max: job.cycles_max,
            debug_bytes_max: job.debug_bytes_max,
            sample_cycles: 0,
            sample_salt: 0,
        };
        Failing { job, elf: elf.clone() }
    };
    job.inputs.iter().map(run).collect()
}
