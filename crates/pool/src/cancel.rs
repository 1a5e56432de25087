//! How long a job may take, and how its caller takes it back.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use crate::ledger::Ledger;

/// Takes jobs back: their workers are killed at once, or never started. Cheap to clone; all clones are the same handle. A job
/// that has ended is not touched.
#[derive(Clone, Debug, Default)]
pub struct Cancel {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    is_cancelled: bool,
    ledger: Option<Arc<Ledger>>,
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

    /// Takes the jobs back. Their calls end with [`crate::PoolError::Cancelled`]; so does any later one with this handle.
    pub fn cancel(&self) {
        let (ledger, jobs) = {
            let mut state = self.state();
            state.is_cancelled = true;
            (state.ledger.clone(), std::mem::take(&mut state.jobs))
        };
        if let Some(ledger) = ledger {
            ledger.recall(&jobs);
        }
    }

    /// Whether the job was taken back.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.state().is_cancelled
    }

    /// A job waits in `ledger` for its slot.
    pub(crate) fn begin(&self, ledger: &Arc<Ledger>) {
        self.state().ledger = Some(Arc::clone(ledger));
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
