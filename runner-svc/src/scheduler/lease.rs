//! Leases workers: when the turn has come, until the time limit or until the caller goes away.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use antares_pool::{
    Answers, BatchEnd, Pool, PoolError, Recall, Sealed, StartedRun, Until, Verdict,
    job::{RunJob, RunReport},
};
use antares_serve::{Account, chain};

use crate::{
    ended::ExecuteError,
    race::{Interpreted, RunTimer},
    scheduler::{Scheduler, queue::Slot},
    tenant::Tenant,
};

/// A worker's answer.
pub(crate) struct Leased<T> {
    pub(crate) answer: T,
    /// Whether the call's deadline comes before the run's own time limit.
    pub(crate) is_call_s: bool,
    /// The first attempt, if its report was false.
    pub(crate) false_start: Option<FalseStart>,
    /// Held until the answer is charged, if a quota counts it.
    pub(crate) slot: Option<Slot>,
}

/// An attempt with a false report. Another worker repeated the work.
pub(crate) struct FalseStart {
    /// The problem of the report.
    pub(crate) detail: String,
    time: Duration,
}

impl<T> Leased<T> {
    /// Time since `began` that is charged: a false report is free.
    pub(crate) fn time(&self, began: Instant) -> Duration {
        began.elapsed().saturating_sub(self.false_start.as_ref().map_or(Duration::ZERO, |start| start.time))
    }
}

/// A report that may be false.
pub(crate) trait Report {
    /// The error in a false report.
    fn falsehood(&self) -> Option<&str>;
}

impl<R> Report for Verdict<R> {
    fn falsehood(&self) -> Option<&str> {
        match self {
            Self::FalseReport { detail } => Some(detail),
            _ => None,
        }
    }
}

impl Report for BatchEnd {
    fn falsehood(&self) -> Option<&str> {
        self.verdict.falsehood()
    }
}

/// For shadow runs: without a report there is no comparison.
impl<T> Report for Option<T> {
    fn falsehood(&self) -> Option<&str> {
        None
    }
}

/// Whether this is an answer, not a lost worker or a timeout: native code may finish in time where the
/// interpreter does not.
pub(crate) fn is_answer<R>(leased: &Leased<Verdict<R>>) -> bool {
    matches!(leased.answer, Verdict::Done(_) | Verdict::SandboxViolation { .. })
}

/// Work for a worker that is already waiting.
pub(crate) trait Leasable: Send + 'static {
    type Report: Answers + Send + 'static;

    /// Starts it if such a worker is available; never blocks.
    fn begin(&self, pool: &Pool, until: Until) -> Result<Option<StartedRun<Self::Report>>, PoolError>;

    /// Runs it in any worker.
    fn run(&self, pool: &Pool, until: Until) -> Result<Verdict<Self::Report>, PoolError>;
}

/// Time limits of work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeLimits {
    /// Wall time in its worker.
    pub(crate) run: Duration,
    /// The call's deadline.
    pub(crate) deadline: Instant,
}

/// One run of a script.
pub(crate) struct ScriptRun {
    pub(crate) job: RunJob,
    pub(crate) elf: Arc<Sealed>,
    pub(crate) library: Option<Arc<Sealed>>,
}

impl Leasable for ScriptRun {
    type Report = RunReport;

    fn begin(&self, pool: &Pool, until: Until) -> Result<Option<StartedRun>, PoolError> {
        pool.begin_run(&self.job, &self.elf, self.library.as_deref(), until)
    }

    fn run(&self, pool: &Pool, until: Until) -> Result<Verdict<RunReport>, PoolError> {
        pool.run(&self.job, &self.elf, self.library.as_deref(), until)
    }
}

/// A slot and its deadline. Dropped when the caller goes away, which recalls the worker.
struct Lease {
    slot: Slot,
    until: Until,
    is_call_s: bool,
    _recall: Recall,
}

impl Lease {
    fn begin(slot: Slot, limits: TimeLimits) -> Self {
        let recall = Recall::default();
        let own = Instant::now() + limits.run;
        let until = recall.until(own.min(limits.deadline));
        Self { slot, until, is_call_s: limits.deadline < own, _recall: recall }
    }
}

impl Scheduler {
    /// Runs `work` like [`Scheduler::lease`], in a waiting worker if there is one, and inline if it is short.
    pub(crate) async fn lease_to<W: Leasable>(
        &self,
        slot: Slot,
        limits: TimeLimits,
        work: W,
    ) -> Result<Leased<Verdict<W::Report>>, ExecuteError> {
        let lease = Lease::begin(slot, limits);
        let pool = self.pool.of_tenant(lease.slot.tenant());
        let begun = work.begin(&pool, lease.until.clone());
        let Some(mut begun) = begun.map_err(failed)? else {
            return self.lease(lease.slot, limits, move |pool, until| work.run(pool, until)).await;
        };
        if self.spin.poll(&mut begun, lease.slot.is_alone()) {
            let mut heard = begun.wait().map_err(failed)?;
            if let Some(answer) = heard.take_if(|answer| answer.falsehood().is_none()) {
                let slot = lease.slot.estimate.is_some().then_some(lease.slot);
                return Ok(Leased { answer, is_call_s: lease.is_call_s, false_start: None, slot });
            }
            return self
                .run_leased(lease, move |pool, until| {
                    // None if the worker died before it got the run.
                    heard.take().map_or_else(|| work.run(pool, until), Ok)
                })
                .await;
        }
        let mut begun = Some(begun);
        let run = move |pool: &Pool, until: Until| match begun.take().map(StartedRun::wait).transpose()? {
            Some(Some(answer)) => Ok(answer),
            Some(None) | None => work.run(pool, until),
        };
        self.run_leased(lease, run).await
    }

    /// Runs `work` in a worker within `limits`. A caller that goes away recalls it.
    pub(crate) async fn lease<T: Report + Send + 'static>(
        &self,
        slot: Slot,
        limits: TimeLimits,
        work: impl FnMut(&Pool, Until) -> Result<T, PoolError> + Send + 'static,
    ) -> Result<Leased<T>, ExecuteError> {
        self.run_leased(Lease::begin(slot, limits), work).await
    }

    async fn run_leased<T: Report + Send + 'static>(
        &self,
        Lease { slot, until, is_call_s, _recall }: Lease,
        work: impl FnMut(&Pool, Until) -> Result<T, PoolError> + Send + 'static,
    ) -> Result<Leased<T>, ExecuteError> {
        let pool = self.pool.of_tenant(slot.tenant());
        let worked = tokio::task::spawn_blocking(move || {
            // The slot is held until the worker is gone, even if the caller has gone away.
            let answer = believed(&pool, &until, work);
            (answer, slot.estimate.is_some().then_some(slot))
        });
        let (answer, slot) = worked.await.map_err(|_| ExecuteError::Internal)?;
        let (answer, false_start) = answer.map_err(failed)?;
        Ok(Leased { answer, is_call_s, false_start, slot })
    }
}

/// Runs `work`. After a false report, repeats it once in a fresh worker.
fn believed<T: Report>(
    pool: &Pool,
    until: &Until,
    mut work: impl FnMut(&Pool, Until) -> Result<T, PoolError>,
) -> Result<(T, Option<FalseStart>), PoolError> {
    let began = Instant::now();
    let answer = work(pool, until.clone())?;
    let Some(detail) = answer.falsehood().map(ToOwned::to_owned) else { return Ok((answer, None)) };
    let start = FalseStart { detail, time: began.elapsed() };
    Ok((work(&pool.of_fresh_workers(), until.clone())?, Some(start)))
}

/// Converts an error of the pool.
fn failed(error: PoolError) -> ExecuteError {
    match error {
        error if error.is_for_now() => {
            tracing::warn!(error = chain(&error), "no worker");
            ExecuteError::Busy
        }
        error => ExecuteError::Pool(error),
    }
}

/// A worker's answer and its start.
pub(crate) type Answered<R> = Interpreted<Leased<Verdict<R>>>;

/// State of work whose turn has come.
pub(crate) enum Turn<R> {
    Worker(Slot),
    /// The interpreter's answer, which did not wait for native code.
    Answered(Answered<R>),
}

impl<R> Turn<R> {
    /// Returns the existing answer, or else that of `run`. Charges its time even if the caller goes away.
    pub(crate) async fn answer<F>(
        self,
        account: &Account,
        cycles_max: u64,
        run: impl FnOnce(Slot) -> F,
    ) -> Result<Answered<R>, ExecuteError>
    where
        F: Future<Output = Result<Leased<Verdict<R>>, ExecuteError>>,
    {
        let slot = match self {
            Self::Worker(slot) => slot,
            Self::Answered(answered) => return Ok(answered),
        };
        let mut timer = RunTimer::begin(|time| account.ran_for(time, cycles_max));
        let Interpreted { answer, began } = timer.heard(run(slot).await);
        Ok(Answered { answer: answer?, began })
    }
}

impl Scheduler {
    /// Waits for the turn of `tenant`, unless there is an answer already. Returns the wait.
    pub(crate) async fn turn<R>(
        &self,
        tenant: &Tenant,
        answered: Option<Answered<R>>,
    ) -> Result<(Turn<R>, Duration), ExecuteError> {
        match answered {
            Some(answered) => Ok((Turn::Answered(answered), Duration::ZERO)),
            None => self.slot(tenant).await.map(|(slot, queue)| (Turn::Worker(slot), queue)),
        }
    }
}
