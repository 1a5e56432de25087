//! Decides who runs next, and leases workers.

pub(crate) mod lease;
pub(crate) mod queue;
mod shares;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use antares_pool::{Answers, Pool, StartedRun};

use crate::{
    ended::ExecuteError,
    metrics::RunnerMetrics,
    scheduler::queue::{Full, Queue, Slot},
    tenant::Tenant,
};

/// Queues tenants fairly, and leases workers to them.
pub(crate) struct Scheduler {
    slots: Arc<Queue>,
    pub(crate) pool: Pool,
    spin: AdaptiveSpin,
    metrics: Arc<RunnerMetrics>,
}

impl Scheduler {
    /// Runs up to `workers` at once in `pool`, with at most `queue_max` waiting calls.
    pub(crate) fn new(pool: Pool, workers: usize, queue_max: usize, metrics: &Arc<RunnerMetrics>) -> Self {
        let slots = Arc::new(Queue::new(workers, queue_max));
        Self { slots, pool, spin: AdaptiveSpin::default(), metrics: metrics.clone() }
    }

    /// Waits for the turn of `tenant`, whose quota may be used up by then. Returns the wait.
    pub(crate) async fn slot(&self, tenant: &Tenant) -> Result<(Slot, Duration), ExecuteError> {
        tenant.account.may_run().map_err(ExecuteError::Quota)?;
        let started = Instant::now();
        let waiting = self.metrics.waiting();
        let slot = self.slots.acquire(tenant).await.map_err(|Full| ExecuteError::QueueFull)?;
        drop(waiting);
        Ok((slot.begin(tenant).map_err(ExecuteError::Quota)?, started.elapsed()))
    }

    /// A slot for `tenant`, if a worker is idle.
    pub(crate) fn idle_slot(&self, tenant: &Tenant) -> Option<Slot> {
        self.slots.try_acquire(tenant).and_then(|slot| slot.begin(tenant).ok())
    }
}

// Adaptive spin: how long a task polls for the answer of a short run before a blocking thread waits for it.
//
// The handover costs more than most short scripts take, but polling is wasted on long ones: recent success
// decides.

/// Spin time: the way of a waking worker to its answer, and too short for other tasks to notice.
const SPIN_MAX: Duration = Duration::from_micros(100);
/// The same while nothing else runs or waits: a handover would take longer than most transactions.
const SPIN_ALONE_MAX: Duration = Duration::from_micros(400);
/// Consecutive misses after which only some runs spin.
const MISSES_MAX: u32 = 4;
/// Of those, one in this many.
const ONE_IN: u32 = 32;

/// Misses since the last hit.
#[derive(Debug, Default)]
pub(crate) struct AdaptiveSpin(AtomicU32);

impl AdaptiveSpin {
    /// Polls for the end of `started` while worthwhile, longer if it `is_alone`. Returns whether it ended.
    pub(crate) fn poll<R: Answers>(&self, started: &mut StartedRun<R>, is_alone: bool) -> bool {
        let time = self.now(is_alone);
        if time.is_zero() {
            return false;
        }
        let is_there = started.poll(time);
        self.record(is_there);
        is_there
    }

    /// Spin time for this run.
    fn now(&self, is_alone: bool) -> Duration {
        let misses = self.0.load(Ordering::Relaxed);
        if misses < MISSES_MAX || misses.is_multiple_of(ONE_IN) {
            return if is_alone { SPIN_ALONE_MAX } else { SPIN_MAX };
        }
        self.0.fetch_add(1, Ordering::Relaxed);
        Duration::ZERO
    }

    /// Records whether spinning was worthwhile.
    fn record(&self, is_there: bool) {
        if is_there {
            self.0.store(0, Ordering::Relaxed);
        } else {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_in_vain_become_rare_and_one_that_is_not_makes_up_for_them() {
        let spin = AdaptiveSpin::default();
        let looks = (0..320).filter(|_| {
            let looks = spin.now(false) == SPIN_MAX;
            if looks {
                spin.record(false);
            }
            looks
        });
        assert!((10..=15).contains(&looks.count()));
        spin.record(true);
        assert_eq!((spin.now(false), spin.now(true)), (SPIN_MAX, SPIN_ALONE_MAX));
    }
}
