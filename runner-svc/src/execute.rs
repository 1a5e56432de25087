//! One execution, from a checked order to its end: fetch the script, fetch native code, wait for a worker,
//! run.

pub(crate) mod batch;
pub(crate) mod order;
mod race;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::time::timeout_at;
use tracing::Instrument;

use crate::{
    artifacts::{Artifacts, native::Native, prepare::Prepared, ready::Used},
    charge::{charge_run, record_spans},
    diagnosis::diagnose::{Diagnoses, Failing},
    ended::{Ended, ExecuteError, Execution},
    execute::order::Order,
    metrics::RunnerMetrics,
    profiles::Profiles,
    scheduler::{
        Scheduler,
        lease::{Answered, ScriptRun, TimeLimits},
    },
    shadow_runs::{RunAgain, ShadowRuns},
};

/// Runs scripts, each once or with many inputs.
pub(crate) struct Executor {
    pub(crate) artifacts: Arc<Artifacts>,
    pub(crate) scheduler: Arc<Scheduler>,
    pub(crate) shadow_runs: Arc<ShadowRuns>,
    pub(crate) diagnoses: Arc<Diagnoses>,
    pub(crate) profiles: Arc<Profiles>,
    pub(crate) metrics: Arc<RunnerMetrics>,
}

impl Executor {
    /// Runs `order`. The caller waits until `deadline` at most. A caller that goes away earlier frees its
    /// worker at once.
    pub(crate) async fn execute(&self, order: Order, deadline: Instant) -> Result<Execution, ExecuteError> {
        let started = Instant::now();
        let steps = self.steps(order, deadline);
        let mut result = timeout_at(deadline.into(), steps).await.unwrap_or(Err(ExecuteError::CallDeadline));
        if let Ok(execution) = &mut result {
            execution.wall = started.elapsed();
        }
        self.metrics.record(&result, started.elapsed());
        result
    }

    async fn steps(&self, order: Order, deadline: Instant) -> Result<Execution, ExecuteError> {
        let Order { tenant, script, job, run_time, recheck, diagnosis } = order;
        let (account, limits) = (&tenant.account, TimeLimits { run: run_time, deadline });
        account.may_run().map_err(ExecuteError::Quota)?;
        let sample_salt = (job.sample_cycles > 0).then_some(job.sample_salt);
        let (prepared, answered) = self.prepare_or_run(&tenant, script, &job, limits).await?;
        let Prepared { script, native, fallback, fetch } = prepared;
        let (native, fallback) = self.artifacts.unless_early_bailout(account, job.tier, (native, fallback));
        let turn = self.scheduler.turn(&tenant, answered).instrument(tracing::debug_span!("queue"));
        let (turn, mut queue) = turn.await?;
        let origin = native.as_ref().map(Native::origin);
        let keys = origin.map(|origin| Used::of(account, origin.key));
        self.metrics.record_native(origin.as_slice().iter().map(|origin| origin.tier), 1);
        let elf = script.elf;
        let again = || RunAgain { job: job.clone(), elf: elf.clone() };
        let failing = diagnosis.then(|| Failing { job: job.clone(), elf: elf.clone() });
        let shadow = keys.and_then(|_| self.shadow_runs.draw(recheck, 1, run_time, again));
        let library = native.as_ref().map(|native| native.library.clone());
        let work = async {
            let cycles_max = job.cycles_max;
            let run = |slot| self.scheduler.lease_to(slot, limits, ScriptRun { job, elf, library });
            let Answered { answer, began } = turn.answer(account, cycles_max, run).await?;
            charge_run(account, &answer.answer, answer.time(began), cycles_max);
            let ended = self.artifacts.judge(answer, keys.as_slice())?;
            if let Ended::Reported(report) = &ended {
                let reported = Duration::from_micros(report.load_us + report.run_us);
                queue += began.elapsed().saturating_sub(reported);
                record_spans(report);
            }
            Ok::<_, ExecuteError>(ended)
        };
        let mut ended = work.instrument(tracing::debug_span!("worker")).await?;
        self.profiles.keep_run(&tenant.name, script.digest, &ended);
        self.artifacts.learn_from(account, native.as_ref(), &ended);
        if let Ended::Reported(report) = &ended {
            self.artifacts.record_end(account, origin, report);
        }
        let mut recheck = None;
        if let (Some(shadow), Ended::Reported(first)) = (shadow, &mut ended) {
            (*first, recheck) =
                self.shadow_runs.compare(&tenant, keys.as_slice(), shadow, first.clone()).await;
        }
        let mut diagnosis = None;
        if let Some(failing) = failing {
            diagnosis = self.diagnoses.why_run(&tenant, keys.as_slice(), failing, &ended, deadline).await;
        }
        let (script, native) = (script.digest, origin);
        let wall = Duration::ZERO;
        Ok(Execution { script, ended, native, fallback, fetch, queue, wall, sample_salt, recheck, diagnosis })
    }
}
