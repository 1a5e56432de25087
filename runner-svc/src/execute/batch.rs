//! One script with many inputs: prepared once, then leased one worker for all of them.

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

/// What is the same for all runs of a batch or a session.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    /// For whom.
    pub(crate) tenant: Tenant,
    pub(crate) script: Script,
    pub(crate) options: CompileOptions,
    pub(crate) tier: Tier,
    /// Of each run.
    pub(crate) cycles_max: u64,
    /// Of each run.
    pub(crate) debug_bytes_max: u64,
    /// Wall time of all runs that one worker makes.
    pub(crate) run_time: Duration,
    /// Whether the caller wants them run again, and compared.
    pub(crate) recheck: bool,
    /// Whether the caller wants to know why runs failed.
    pub(crate) diagnosis: bool,
}

/// The arguments of one run.
pub(crate) type Input = Vec<Vec<u8>>;

/// A batch that came to an end.
#[derive(Clone, Debug)]
pub(crate) struct BatchExecution {
    pub(crate) script: Sha256Digest,
    /// One for each input; none for those that were not reached.
    pub(crate) results: Vec<Option<Ended>>,
    /// Why they failed, of as many as that is known of.
    pub(crate) diagnoses: Vec<Option<Diagnosed>>,
    pub(crate) native: Option<Origin>,
    pub(crate) fallback: Option<Fallback>,
    pub(crate) fetch: Duration,
    pub(crate) queue: Duration,
    /// From its arrival to its end.
    pub(crate) wall: Duration,
    pub(crate) recheck: Option<Found>,
}

/// What one worker made of inputs.
pub(crate) struct BatchRuns {
    /// One for each input; none for those that were not reached.
    pub(crate) results: Vec<Option<Ended>>,
    /// Why they failed, of as many as that is known of.
    pub(crate) diagnoses: Vec<Option<Diagnosed>>,
    native: Option<Origin>,
    fallback: Option<Fallback>,
    /// How long the worker was waited for, and the ways to it and back.
    queue: Duration,
    recheck: Option<Found>,
}

impl Executor {
    /// Runs a script with all of `inputs`. Waits as [`Executor::execute`] does.
    pub(crate) async fn batch(
        &self,
        context: Context,
        inputs: Vec<Input>,
        deadline: Instant,
    ) -> Result<BatchExecution, ExecuteError> {
        let arrived = Instant::now();
        let steps = async {
            let prepared = self.prepare(&context, deadline).await?;
            let BatchRuns { results, diagnoses, native, fallback, queue, recheck } =
                self.run_together(&context, &prepared, inputs, deadline).await?;
            Ok(BatchExecution {
                script: prepared.script.digest,
                results,
                diagnoses,
                native,
                fallback,
                fetch: prepared.fetch,
                queue,
                wall: arrived.elapsed(),
                recheck,
            })
        };
        let result = timeout_at(deadline.into(), steps).await.unwrap_or(Err(ExecuteError::CallDeadline));
        if let Err(error) = &result {
            self.metrics.record_error(error);
        }
        result
    }

    /// Gets the script and its native code.
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
            sample_cycles: self.profiles.sample_cycles(),
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
        let Leased { mut answer, is_call_s, false_start, estimate } = leased;
        drop(estimate);
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
        // All that was asked for is there, however the worker ended after that.
        let is_done = is_all && !matches!(verdict, Verdict::WorkerLost { .. });
        if !is_done || false_start.is_some() {
            let leased = Leased { answer: verdict, is_call_s, false_start, estimate: None };
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

    /// Notes how runs of a script, by this native code, ended, and what they teach.
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
        // One of them is enough: what others leave for, they tell the next time.
        let leaves = |ended: &&Ended| matches!(ended, Ended::Reported(report) if report.seen.is_some());
        if let Some(ended) = results.iter().flatten().find(leaves) {
            self.artifacts.learn_from(account, native, ended);
        }
    }
}

/// The runs of a batch, each as one of its own.
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
