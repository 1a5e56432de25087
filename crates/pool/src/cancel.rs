//! How long a job may take, and how its caller takes it back.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use crate::ledger::Ledger;

/// Takes a job back: its worker is killed at once, or never started. Cheap to clone; all clones are the same handle. A job
/// that has ended is not touched.
#[derive(Clone, Debug, Default)]
pub struct Cancel {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    is_cancelled: bool,
    ledger: Option<Arc<Ledger>>,
    /// Ticket and turn.
    job: Option<(u64, u64)>,
}

impl Cancel {
    /// A handle for one job, or for some that follow each other.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the job back. Its call ends with [`crate::PoolError::Cancelled`]; so does any later one with this handle.
    pub fn cancel(&self) {
        let (ledger, job) = {
            let mut state = self.state();
            state.is_cancelled = true;
            (state.ledger.clone(), state.job)
        };
        if let Some(ledger) = ledger {
            ledger.recall(job);
        }
    }

    /// Whether the job was taken back.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.state().is_cancelled
    }

    /// A job waits in `ledger` for its slot.
    pub(crate) fn begin(&self, ledger: &Arc<Ledger>) {
        let mut state = self.state();
        state.ledger = Some(Arc::clone(ledger));
        state.job = None;
    }

    /// The job has this ticket, and its child this turn. Answers whether it is still wanted.
    pub(crate) fn admitted(&self, ticket: u64, turn: u64) -> bool {
        let mut state = self.state();
        state.job = Some((ticket, turn));
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
