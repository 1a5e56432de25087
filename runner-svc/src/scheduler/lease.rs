//! Work is lent a worker, when its turn has come, for as long as it may take and somebody waits.

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
    artifacts::ready::Used,
    ended::{Ended, ExecuteError},
    runner::Shared,
    scheduler::queue::{Full, Slot},
    tenant::Tenant,
};

/// What a worker gave.
pub(crate) struct Lent<T> {
    pub(crate) answer: T,
    /// Whether the call's deadline came before the end of the run's own time.
    pub(crate) is_call_s: bool,
}

/// Whether that is an answer, and no end of a worker or of its time: native code may manage in time what the
/// interpreter does not.
pub(crate) fn is_answer<R>(lent: &Lent<Verdict<R>>) -> bool {
    matches!(lent.answer, Verdict::Done(_) | Verdict::SandboxViolation { .. })
}

/// Work that a worker that waits may do.
pub(crate) trait Lendable: Send + 'static {
    type Report: Answers + Send + 'static;

    /// Begins it, if such a worker is there; never blocks.
    fn begin(&self, pool: &Pool, until: Until) -> Result<Option<StartedRun<Self::Report>>, PoolError>;

    /// Has it done by whatever worker.
    fn run(&self, pool: &Pool, until: Until) -> Result<Verdict<Self::Report>, PoolError>;
}

/// One run.
struct Run {
    job: RunJob,
    elf: Arc<Sealed>,
    library: Option<Arc<Sealed>>,
}

impl Lendable for Run {
    type Report = RunReport;

    fn begin(&self, pool: &Pool, until: Until) -> Result<Option<StartedRun>, PoolError> {
        pool.begin_run(&self.job, &self.elf, self.library.as_deref(), until)
    }

    fn run(&self, pool: &Pool, until: Until) -> Result<Verdict<RunReport>, PoolError> {
        pool.run(&self.job, &self.elf, self.library.as_deref(), until)
    }
}

impl Shared {
    /// Waits for the turn of `tenant`. Gives how long that was.
    pub(crate) async fn slot(&self, tenant: &Tenant) -> Result<(Slot, Duration), ExecuteError> {
        let started = Instant::now();
        let waiting = self.metrics.waiting();
        let slot = self.slots.acquire(tenant).await.map_err(|Full| ExecuteError::QueueFull)?;
        drop(waiting);
        Ok((slot, started.elapsed()))
    }

    /// Has `job` done as [`Shared::lend`] does; by a worker that waits for it, if there is one, and at once,
    /// if it is short.
    pub(crate) async fn run_one(
        &self,
        slot: Slot,
        run_time: Duration,
        deadline: Instant,
        job: RunJob,
        elf: Arc<Sealed>,
        library: Option<Arc<Sealed>>,
    ) -> Result<Lent<Verdict<RunReport>>, ExecuteError> {
        self.lend_to(slot, (run_time, deadline), Run { job, elf, library }).await
    }

    /// Has `work` done for at most a time, as [`Shared::lend`] does; by a worker that waits for it, if there
    /// is one, and at once, if it is short.
    pub(crate) async fn lend_to<W: Lendable>(
        &self,
        slot: Slot,
        (run_time, deadline): (Duration, Instant),
        work: W,
    ) -> Result<Lent<Verdict<W::Report>>, ExecuteError> {
        let recall = Recall::default();
        let own = Instant::now() + run_time;
        let until = recall.until(own.min(deadline));
        let pool = self.pool.of_tenant(slot.tenant());
        let begun = work.begin(&pool, until.clone());
        let Some(mut begun) = begun.map_err(failed)? else {
            return self.lend(slot, run_time, deadline, move |pool, until| work.run(pool, until)).await;
        };
        if self.patience.look(&mut begun, slot.is_alone()) {
            // None if the worker had died before it heard of the run.
            if let Some(answer) = begun.wait().map_err(failed)? {
                return Ok(Lent { answer, is_call_s: deadline < own });
            }
            return self.lend(slot, run_time, deadline, move |pool, until| work.run(pool, until)).await;
        }
        let run = move |pool: &Pool, until| match begun.wait()? {
            Some(answer) => Ok(answer),
            None => work.run(pool, until),
        };
        self.lend_until(slot, until, deadline < own, recall, run).await
    }

    /// Has `work` done by a worker for at most `run_time`. A caller that goes away takes it back.
    pub(crate) async fn lend<T: Send + 'static>(
        &self,
        slot: Slot,
        run_time: Duration,
        deadline: Instant,
        work: impl FnOnce(&Pool, Until) -> Result<T, PoolError> + Send + 'static,
    ) -> Result<Lent<T>, ExecuteError> {
        let recall = Recall::default();
        let own = Instant::now() + run_time;
        let until = recall.until(own.min(deadline));
        self.lend_until(slot, until, deadline < own, recall, work).await
    }

    async fn lend_until<T: Send + 'static>(
        &self,
        slot: Slot,
        until: Until,
        is_call_s: bool,
        _recall: Recall,
        work: impl FnOnce(&Pool, Until) -> Result<T, PoolError> + Send + 'static,
    ) -> Result<Lent<T>, ExecuteError> {
        let pool = self.pool.of_tenant(slot.tenant());
        let worked = tokio::task::spawn_blocking(move || {
            let answer = work(&pool, until);
            // Held until the worker is gone, also when nobody waits for it any more.
            drop(slot);
            answer
        });
        let answer = worked.await.map_err(|_| ExecuteError::Internal)?.map_err(failed)?;
        Ok(Lent { answer, is_call_s })
    }

    /// What the end of a worker that ran the native code `keys` means.
    pub(crate) fn judge<R>(&self, lent: Lent<Verdict<R>>, keys: &[Used]) -> Result<Ended<R>, ExecuteError> {
        match lent.answer {
            Verdict::Done(report) => Ok(Ended::Reported(report)),
            Verdict::DeadlineExceeded if lent.is_call_s => Err(ExecuteError::CallDeadline),
            Verdict::DeadlineExceeded => Ok(Ended::DeadlineExceeded),
            Verdict::SandboxViolation { detail } => {
                self.ready.bar(keys, &detail);
                Ok(Ended::SandboxViolation { detail })
            }
            Verdict::WorkerLost { detail } => {
                // If its native code is to blame, the next call shall not meet the same copy.
                keys.iter().for_each(|used| self.ready.remove(used.ready));
                Err(ExecuteError::WorkerLost { detail })
            }
        }
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
