//! Who runs next, and the workers that are leased to them.

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

/// Gives tenants their turns, and leases them workers.
pub(crate) struct Scheduler {
    slots: Arc<Queue>,
    pub(crate) pool: Pool,
    spin: AdaptiveSpin,
    metrics: Arc<RunnerMetrics>,
}

impl Scheduler {
    /// For `workers` at once of `pool`, and at most `queue_max` calls that wait.
    pub(crate) fn new(pool: Pool, workers: usize, queue_max: usize, metrics: &Arc<RunnerMetrics>) -> Self {
        let slots = Arc::new(Queue::new(workers, queue_max));
        Self { slots, pool, spin: AdaptiveSpin::default(), metrics: metrics.clone() }
    }

    /// Waits for the turn of `tenant`, which may have used up its quota by then. Gives how long that was.
    pub(crate) async fn slot(&self, tenant: &Tenant) -> Result<(Slot, Duration), ExecuteError> {
        tenant.account.may_run().map_err(ExecuteError::Quota)?;
        let started = Instant::now();
        let waiting = self.metrics.waiting();
        let slot = self.slots.acquire(tenant).await.map_err(|Full| ExecuteError::QueueFull)?;
        drop(waiting);
        Ok((slot.begin(tenant).map_err(ExecuteError::Quota)?, started.elapsed()))
    }

    /// A turn for `tenant`, if a worker is idle.
    pub(crate) fn idle_slot(&self, tenant: &Tenant) -> Option<Slot> {
        self.slots.try_acquire(tenant).and_then(|slot| slot.begin(tenant).ok())
    }
}

// How long a task looks for the answer to a short run before it hands the waiting over to a thread that may
// block.
//
// Handing over and back costs more than most short scripts take, and looking is in vain for long ones:
// whether it was worth it lately decides.

/// Time that a task looks: a waking worker's way to its answer, and less than other tasks would notice.
const SPIN_MAX: Duration = Duration::from_micros(100);
/// The same while nothing else runs or waits to run: handing over would be slower than most transactions are.
const SPIN_ALONE_MAX: Duration = Duration::from_micros(400);
/// Looks in vain, one after another, from which on only some are made.
const MISSES_MAX: u32 = 4;
/// Of these, one in so many.
const ONE_IN: u32 = 32;

/// Looks in vain since the last one that was not.
#[derive(Debug, Default)]
pub(crate) struct AdaptiveSpin(AtomicU32);

impl AdaptiveSpin {
    /// Looks for the end of `started` as long as is worth it, longer if it `is_alone`. Whether it is there.
    pub(crate) fn poll<R: Answers>(&self, started: &mut StartedRun<R>, is_alone: bool) -> bool {
        let time = self.now(is_alone);
        if time.is_zero() {
            return false;
        }
        let is_there = started.poll(time);
        self.record(is_there);
        is_there
    }

    /// How long to look this time.
    fn now(&self, is_alone: bool) -> Duration {
        let misses = self.0.load(Ordering::Relaxed);
        if misses < MISSES_MAX || misses.is_multiple_of(ONE_IN) {
            return if is_alone { SPIN_ALONE_MAX } else { SPIN_MAX };
        }
        self.0.fetch_add(1, Ordering::Relaxed);
        Duration::ZERO
    }

    /// Notes whether a look was worth it.
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
