//! One verification, from a checked order to its scripts' results: parse the transaction, get native code of
//! its programs, wait for a worker, run.

pub(crate) mod attempt;
pub(crate) mod hot_cells;
pub(crate) mod hot_programs;
mod isolated_groups;
pub(crate) mod lookup;
pub(crate) mod order;
pub(crate) mod parts;
pub(crate) mod programs;
pub(crate) mod reading;
pub(crate) mod references;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use antares_pool::job::{GroupReport, VerifyReport};
use antares_serve::past_span;
use tokio::time::timeout_at;
use tracing::Instrument;

use crate::{
    artifacts::{Artifacts, native::Native, ready::Used},
    charge::charge_verification,
    diagnosis::{Diagnosed, diagnose::Diagnoses},
    ended::{Ended, ExecuteError, Found, Verified},
    metrics::RunnerMetrics,
    profiles::{Profiles, entry::RunCycles},
    scheduler::{Scheduler, lease::Answered},
    shadow_runs::ShadowRuns,
    verify::{
        hot_programs::{HotPrograms, Interpreted, Met},
        order::VerifyOrder,
        programs::{Candidate, ProgramUse},
        reading::{TransactionReader, TransactionReading, met},
    },
};

/// A verification that ended.
#[derive(Clone, Debug)]
pub(crate) struct Verification {
    pub(crate) ended: Ended<Verified>,
    pub(crate) programs: Vec<ProgramUse>,
    /// Hot programs without native code, in addition to the programs above.
    pub(crate) interpreted: Vec<Interpreted>,
    pub(crate) parse: Duration,
    /// Time to find cells and native code.
    pub(crate) fetch: Duration,
    /// Waiting for a worker, and the transfers to it and back.
    pub(crate) queue: Duration,
    /// From its arrival to its end.
    pub(crate) wall: Duration,
    /// Salt of the sample points; none if runs are not sampled.
    pub(crate) sample_salt: Option<u64>,
    pub(crate) recheck: Option<Found>,
    pub(crate) diagnosis: Option<Diagnosed>,
}

pub(crate) struct TransactionVerifier {
    pub(crate) reader: TransactionReader,
    pub(crate) artifacts: Arc<Artifacts>,
    pub(crate) scheduler: Arc<Scheduler>,
    pub(crate) shadow_runs: Arc<ShadowRuns>,
    pub(crate) diagnoses: Arc<Diagnoses>,
    pub(crate) profiles: Arc<Profiles>,
    pub(crate) hot_programs: Arc<HotPrograms>,
    pub(crate) metrics: Arc<RunnerMetrics>,
}

impl TransactionVerifier {
    /// Verifies `order`. Waits like [`Executor::execute`](crate::execute::Executor::execute).
    pub(crate) async fn verify(
        &self,
        order: VerifyOrder,
        deadline: Instant,
    ) -> Result<Verification, ExecuteError> {
        let steps = self.steps(order, deadline);
        let result = timeout_at(deadline.into(), steps).await.unwrap_or(Err(ExecuteError::CallDeadline));
        let reported = result.as_ref().map(|verification| (&verification.ended, verification.queue));
        self.metrics.record_verification(reported);
        result
    }

    async fn steps(&self, order: VerifyOrder, deadline: Instant) -> Result<Verification, ExecuteError> {
        order.tenant.account.may_run().map_err(ExecuteError::Quota)?;
        let (arrived, resolving, field) = (order.arrived, order.resolving, order.source.field());
        let started = Instant::now();
        let reported = self.reader.read(order).instrument(tracing::debug_span!("transaction")).await?;
        let TransactionReading { transaction, mut candidates } = reported;
        let (parse, started) = (started.elapsed(), Instant::now());
        let mut met = met(&candidates);
        let hot = self.hot_programs.find(&transaction.order.tenant.account, &met.cells);
        candidates.extend(hot.into_iter().map(Candidate::from));
        let span = tracing::debug_span!("artifacts", count = candidates.len());
        let (attempt, answered) =
            self.attempt_or_answer(&transaction, candidates, deadline).instrument(span).await?;
        let fetch = answered.as_ref().map_or_else(|| started.elapsed(), |early| early.began - started);
        let fetch = resolving + fetch.saturating_sub(attempt.made);
        let (order, account) = (&transaction.order, &transaction.order.tenant.account);
        let turn = self.scheduler.turn(&order.tenant, answered).instrument(tracing::debug_span!("queue"));
        let (turn, mut queue) = turn.await?;
        attempt.without.iter().for_each(|(_, why)| self.metrics.record_fallback(*why));
        self.metrics.record_native(attempt.libraries.iter().map(|native| native.tier), 1);
        let keys: Vec<_> = attempt.libraries.iter().map(|native| Used::of(account, native.key)).collect();
        let again = || transaction.again(&attempt);
        let draw = |()| self.shadow_runs.draw(order.recheck, 1, order.run_time, again);
        let shadow = (!keys.is_empty()).then_some(()).and_then(draw);
        let failing = order.diagnosis.as_ref().map(|_| again());
        let work = async {
            let run = |slot| self.run_attempt(slot, &transaction, &attempt, deadline);
            let Answered { answer, began } = turn.answer(account, order.cycles_max, run).await?;
            charge_verification(account, &answer.answer, answer.time(began), order.cycles_max);
            let ended = self.artifacts.judge(answer, &keys)?;
            if let Ended::Reported(VerifyReport::Done { read_us, run_us, .. }) = &ended {
                queue += began.elapsed().saturating_sub(Duration::from_micros(read_us + run_us));
                record_spans(*read_us, *run_us);
            }
            Ok::<_, ExecuteError>(ended)
        };
        let ended = work.instrument(tracing::debug_span!("worker")).await?;
        met.without = attempt.without;
        let (mut ended, interpreted) = self.take_in(order, field, ended, &met, &attempt.libraries)?;
        let mut recheck = None;
        if let (Some(shadow), Ended::Reported(first)) = (shadow, &mut ended) {
            (*first, recheck) = self.shadow_runs.compare(&order.tenant, &keys, shadow, first.clone()).await;
        }
        let mut diagnosis = None;
        if let (Some(budget), Some(failing)) = (&order.diagnosis, failing) {
            diagnosis =
                self.diagnoses.why_group(&order.tenant, &keys, (failing, budget), &ended, deadline).await;
        }
        let sample_salt = (attempt.job.sample_cycles > 0).then_some(attempt.job.sample_salt);
        let (programs, wall) = (attempt.uses, arrived.elapsed());
        Ok(Verification {
            ended,
            programs,
            interpreted,
            parse,
            fetch,
            queue,
            wall,
            sample_salt,
            recheck,
            diagnosis,
        })
    }

    /// Stores a worker's by-products for later runs. Returns the verdict and the hot programs.
    fn take_in(
        &self,
        order: &VerifyOrder,
        field: &str,
        ended: Ended<VerifyReport>,
        met: &Met,
        learning: &[Native],
    ) -> Result<(Ended<Verified>, Vec<Interpreted>), ExecuteError> {
        let report = match ended {
            Ended::Reported(report) => report,
            Ended::DeadlineExceeded => return Ok((Ended::DeadlineExceeded, Vec::new())),
            Ended::SandboxViolation { detail } => {
                return Ok((Ended::SandboxViolation { detail }, Vec::new()));
            }
        };
        let VerifyOrder { tenant, .. } = order;
        match report {
            VerifyReport::Done { outcome, cycles, groups, hot, seen, ran, samples, read_us, run_us } => {
                self.artifacts.record_ends(&tenant.account, learning, ran);
                let (samples, native_cycles) = (samples.as_deref(), native_cycles(&groups));
                self.profiles.keep_samples(&tenant.name, None, RunCycles { samples, cycles, native_cycles });
                let interpreted = self.hot_programs.take(&tenant.account, hot, met);
                for (number, seen) in seen {
                    let native = usize::try_from(number).ok().and_then(|number| learning.get(number));
                    native
                        .into_iter()
                        .for_each(|native| self.artifacts.learn_seen(&tenant.account, native, seen.clone()));
                }
                let verified = Verified { outcome, cycles, groups, read_us, run_us };
                Ok((Ended::Reported(verified), interpreted))
            }
            VerifyReport::Refused { path, detail } => {
                let field = path.unwrap_or_else(|| field.to_owned());
                Err(ExecuteError::Transaction { field, problem: detail })
            }
        }
    }
}

fn native_cycles(groups: &[GroupReport]) -> u64 {
    groups.iter().map(|group| group.native_cycles).fold(0, u64::saturating_add)
}

/// Records the worker's own times as spans: reading, then running, which ended about now.
fn record_spans(read_us: u64, run_us: u64) {
    let (read, run) = (Duration::from_micros(read_us), Duration::from_micros(run_us));
    let end = std::time::SystemTime::now();
    past_span("read", end - run - read, read, Vec::new());
    past_span("run", end - run, run, Vec::new());
}
