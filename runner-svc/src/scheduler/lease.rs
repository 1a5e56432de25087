//! Work is leased a worker, when its turn has come, for as long as it may take and somebody waits.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use antares_pool::{
    Answers, Pool, PoolError, Recall, Sealed, StartedRun, Until, Verdict,
    job::{RunJob, RunReport},
};
use antares_serve::chain;

use crate::{
    ended::ExecuteError,
    scheduler::{Scheduler, queue::Slot},
};

/// What a worker gave.
pub(crate) struct Leased<T> {
    pub(crate) answer: T,
    /// Whether the call's deadline came before the end of the run's own time.
    pub(crate) is_call_s: bool,
}

/// Whether that is an answer, and no end of a worker or of its time: native code may manage in time what the
/// interpreter does not.
pub(crate) fn is_answer<R>(leased: &Leased<Verdict<R>>) -> bool {
    matches!(leased.answer, Verdict::Done(_) | Verdict::SandboxViolation { .. })
}

/// Work that a worker that waits may do.
pub(crate) trait Leasable: Send + 'static {
    type Report: Answers + Send + 'static;

    /// Begins it, if such a worker is there; never blocks.
    fn begin(&self, pool: &Pool, until: Until) -> Result<Option<StartedRun<Self::Report>>, PoolError>;

    /// Has it done by whatever worker.
    fn run(&self, pool: &Pool, until: Until) -> Result<Verdict<Self::Report>, PoolError>;
}

/// How long work may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeLimits {
    /// In its worker.
    pub(crate) run: Duration,
    /// Of the call.
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

/// A slot and the time that there is for it. Dropped when nobody waits any more: then the worker is recalled.
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
    /// Has `work` done as [`Scheduler::lease`] does; by a worker that waits for it, if there is one, and at
    /// once, if it is short.
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
        if self.spin.look(&mut begun, lease.slot.is_alone()) {
            // None if the worker had died before it heard of the run.
            if let Some(answer) = begun.wait().map_err(failed)? {
                return Ok(Leased { answer, is_call_s: lease.is_call_s });
            }
            return self.lease(lease.slot, limits, move |pool, until| work.run(pool, until)).await;
        }
        let run = move |pool: &Pool, until| match begun.wait()? {
            Some(answer) => Ok(answer),
            None => work.run(pool, until),
        };
        self.run_leased(lease, run).await
    }

    /// Has `work` done by a worker for as long as `limits` say. A caller that goes away takes it back.
    pub(crate) async fn lease<T: Send + 'static>(
        &self,
        slot: Slot,
        limits: TimeLimits,
        work: impl FnOnce(&Pool, Until) -> Result<T, PoolError> + Send + 'static,
    ) -> Result<Leased<T>, ExecuteError> {
        self.run_leased(Lease::begin(slot, limits), work).await
    }

    async fn run_leased<T: Send + 'static>(
        &self,
        Lease { slot, until, is_call_s, _recall }: Lease,
        work: impl FnOnce(&Pool, Until) -> Result<T, PoolError> + Send + 'static,
    ) -> Result<Leased<T>, ExecuteError> {
        let pool = self.pool.of_tenant(slot.tenant());
        let worked = tokio::task::spawn_blocking(move || {
            let answer = work(&pool, until);
            // Held until the worker is gone, also when nobody waits for it any more.
            drop(slot);
            answer
        });
        let answer = worked.await.map_err(|_| ExecuteError::Internal)?.map_err(failed)?;
        Ok(Leased { answer, is_call_s })
    }
}

/// Why a pool has no answer.
fn failed(error: PoolError) -> ExecuteError {
    match error {
        error if error.is_for_now() => {
            tracing::warn!(error = chain(&error), "no worker");
            ExecuteError::Busy
        }
        error => ExecuteError::Pool(error),
    }
}
