//! Who runs next, and the workers that are leased to them.

mod adaptive_spin;
pub(crate) mod lease;
pub(crate) mod queue;
mod shares;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use antares_pool::Pool;

use crate::{
    ended::ExecuteError,
    metrics::RunnerMetrics,
    scheduler::{
        adaptive_spin::AdaptiveSpin,
        queue::{Full, Queue, Slot},
    },
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
