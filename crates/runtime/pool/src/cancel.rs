//! Deadlines and cancellation of jobs.

use std::{
    fmt::Debug,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

/// Cancels jobs that it admitted.
pub(crate) trait Recalls: Debug + Send + Sync {
    /// Cancels the jobs with these tickets and turns, and wakes jobs that wait for a ticket.
    fn recall(&self, jobs: &[(u64, u64)]);
}

/// Cancels jobs: kills their workers at once, or never starts them. Does not affect a job that has ended.
/// Cheap to clone; all clones are the same handle.
#[derive(Clone, Debug, Default)]
pub struct Cancel {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    is_cancelled: bool,
    admitted_by: Option<Arc<dyn Recalls>>,
    /// Tickets and turns of all admitted jobs.
    jobs: Vec<(u64, u64)>,
}

/// Cancels jobs when it is dropped.
#[derive(Debug, Default)]
pub struct Recall(Cancel);

impl Recall {
    /// Until `deadline`, or until this is dropped.
    #[must_use]
    pub fn until(&self, deadline: Instant) -> Until {
        Until::new(deadline, &self.0)
    }
}

impl Drop for Recall {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl Cancel {
    /// Creates a handle for one job, or for the jobs of one task.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels the jobs. Their calls end with [`crate::PoolError::Cancelled`], as do later ones with this
    /// handle.
    pub fn cancel(&self) {
        let (admitted_by, jobs) = {
            let mut state = self.state();
            state.is_cancelled = true;
            (state.admitted_by.clone(), std::mem::take(&mut state.jobs))
        };
        if let Some(admitted_by) = admitted_by {
            admitted_by.recall(&jobs);
        }
    }

    /// Whether the jobs were cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.state().is_cancelled
    }

    /// Records that a job waits for its slot at `by`.
    pub(crate) fn begin(&self, by: Arc<dyn Recalls>) {
        self.state().admitted_by = Some(by);
    }

    /// Records an admitted job with its ticket and turn. Returns false if it was cancelled.
    pub(crate) fn admitted(&self, ticket: u64, turn: u64) -> bool {
        let mut state = self.state();
        state.jobs.push((ticket, turn));
        !state.is_cancelled
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code can panic in the middle of a change under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A job's deadline, with optional cancellation.
#[derive(Clone, Debug)]
pub struct Until {
    pub(crate) deadline: Instant,
    pub(crate) cancel: Option<Cancel>,
}

impl Until {
    /// Until `deadline`, or until `cancel` cancels the job.
    #[must_use]
    pub fn new(deadline: Instant, cancel: &Cancel) -> Self {
        Self { deadline, cancel: Some(cancel.clone()) }
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancel.as_ref().is_some_and(Cancel::is_cancelled)
    }
}

impl From<Instant> for Until {
    fn from(deadline: Instant) -> Self {
        Self { deadline, cancel: None }
    }
}
