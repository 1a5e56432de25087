//! How long a job may take, and how its caller takes it back.

use std::{
    fmt::Debug,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

/// Who can take back jobs that it admitted.
pub(crate) trait Recalls: Debug + Send + Sync {
    /// Takes back the jobs with these tickets and turns, and what waits for its ticket.
    fn recall(&self, jobs: &[(u64, u64)]);
}

/// Takes jobs back: their workers are killed at once, or never started. Cheap to clone; all clones are the
/// same handle. A job that has ended is not touched.
#[derive(Clone, Debug, Default)]
pub struct Cancel {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    is_cancelled: bool,
    admitted_by: Option<Arc<dyn Recalls>>,
    /// Tickets and turns of all that were admitted.
    jobs: Vec<(u64, u64)>,
}

/// Takes jobs back when whoever waits for them goes away.
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
    /// A handle for one job, or for the few that one piece of work is made of.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the jobs back. Their calls end with [`crate::PoolError::Cancelled`]; so does any later one with
    /// this handle.
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

    /// Whether the job was taken back.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.state().is_cancelled
    }

    /// A job waits for its slot where `by` admits it.
    pub(crate) fn begin(&self, by: Arc<dyn Recalls>) {
        self.state().admitted_by = Some(by);
    }

    /// The job has this ticket, and its child this turn. Answers whether it is still wanted.
    pub(crate) fn admitted(&self, ticket: u64, turn: u64) -> bool {
        let mut state = self.state();
        state.jobs.push((ticket, turn));
        !state.is_cancelled
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code under the lock can panic half-way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// When a job ends at the latest, and who may end it earlier.
#[derive(Clone, Debug)]
pub struct Until {
    pub(crate) deadline: Instant,
    pub(crate) cancel: Option<Cancel>,
}

impl Until {
    /// Until `deadline`, or until `cancel` takes the job back.
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
