//! Background compiles without an open call: a bounded table of them, by tenant.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use antares_proto::v1;
use antares_serve::Fault;
use antares_serve::admin::operation_error;
use parking_lot::Mutex;
use tokio::{sync::watch, task::AbortHandle};

/// Retention of an ended operation.
const KEEP: Duration = Duration::from_secs(600);

/// Maximum operations including ended ones, in total and per tenant.
const OPERATIONS_MAX: usize = 4_096;
const OPERATIONS_PER_TENANT_MAX: usize = 512;

/// Wait of a caller while the table is full.
const RETRY_FULL: Duration = Duration::from_secs(1);

/// State of an operation.
#[derive(Clone, Debug)]
pub(crate) enum State {
    Queued,
    Running,
    Done(v1::CompileResponse),
    Failed(Fault),
    Cancelled,
}

impl State {
    fn has_ended(&self) -> bool {
        !matches!(self, Self::Queued | Self::Running)
    }
}

#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) name: String,
    pub(crate) script: String,
    pub(crate) priority: v1::Priority,
    holder: [u8; 32],
    started: Instant,
    times: Mutex<Times>,
    state: watch::Sender<State>,
    /// The task that runs it, for cancellation.
    pub(crate) task: Mutex<Option<AbortHandle>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Times {
    begun: Option<Instant>,
    ended: Option<Instant>,
}

/// All operations, by name.
#[derive(Debug, Default)]
pub(crate) struct Operations(Mutex<HashMap<String, Arc<Operation>>>);

impl Operation {
    /// Moves to `state`, unless it has ended.
    pub(crate) fn go_on(&self, state: State) {
        let mut times = self.times.lock();
        let now = Instant::now();
        self.state.send_if_modified(|current| {
            let is_news = !current.has_ended();
            if is_news {
                *current = state;
            }
            is_news
        });
        times.begun = times.begun.or(Some(now));
        if self.state.borrow().has_ended() {
            times.ended = times.ended.or(Some(now));
        }
    }

    /// Cancels it, unless it has ended.
    pub(crate) fn cancel(&self) {
        self.go_on(State::Cancelled);
        if let Some(task) = self.task.lock().take() {
            task.abort();
        }
    }

    /// Waits at most `time` for its end.
    pub(crate) async fn ended(&self, time: Duration) {
        // A timeout is a valid result; the sender lives as long as this.
        let _ = tokio::time::timeout(time, self.state.subscribe().wait_for(State::has_ended)).await;
    }

    /// Its form for callers.
    pub(crate) fn to_message(&self) -> v1::Operation {
        let (state, times) = (self.state.borrow().clone(), *self.times.lock());
        let ms = |until: Option<Instant>| {
            let time = until.unwrap_or_else(Instant::now).saturating_duration_since(self.started);
            u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
        };
        let mut reported = v1::Operation {
            name: self.name.clone(),
            script_sha256: self.script.clone(),
            priority: self.priority.into(),
            age_ms: ms(times.ended),
            queued_ms: ms(times.begun),
            ..v1::Operation::default()
        };
        let state = match state {
            State::Queued => v1::OperationState::Queued,
            State::Running => v1::OperationState::Running,
            State::Cancelled => v1::OperationState::Cancelled,
            State::Done(response) => {
                reported.response = Some(response);
                v1::OperationState::Done
            }
            State::Failed(fault) => {
                reported.error = Some(operation_error(&fault.into()));
                v1::OperationState::Failed
            }
        };
        reported.set_state(state);
        reported
    }
}

impl Operations {
    /// A new, waiting operation.
    ///
    /// # Errors
    /// The table is full.
    pub(crate) fn begin(
        &self,
        holder: [u8; 32],
        script: String,
        priority: v1::Priority,
    ) -> Result<Arc<Operation>, Fault> {
        let mut table = self.0.lock();
        forget(&mut table, |_, age| age.is_some_and(|age| age >= KEEP));
        let own = |table: &HashMap<_, Arc<Operation>>| {
            table.values().filter(|operation| operation.holder == holder).count()
        };
        if own(&table) >= OPERATIONS_PER_TENANT_MAX {
            forget(&mut table, |operation, age| age.is_some() && operation.holder == holder);
        } else if table.len() >= OPERATIONS_MAX {
            forget(&mut table, |_, age| age.is_some());
        }
        if own(&table) >= OPERATIONS_PER_TENANT_MAX || table.len() >= OPERATIONS_MAX {
            let problem = "too many operations have not ended";
            return Err(Fault::exhausted("OPERATIONS_FULL", problem, RETRY_FULL));
        }
        let operation = Arc::new(Operation {
            name: format!("operations/{:032x}", rand::random::<u128>()),
            script,
            priority,
            holder,
            started: Instant::now(),
            times: Mutex::default(),
            state: watch::Sender::new(State::Queued),
            task: Mutex::default(),
        });
        table.insert(operation.name.clone(), operation.clone());
        Ok(operation)
    }

    /// The operation with this name, if it is `holder`'s.
    pub(crate) fn find(&self, holder: [u8; 32], name: &str) -> Result<Arc<Operation>, Fault> {
        let found = self.0.lock().get(name).filter(|operation| operation.holder == holder).cloned();
        let name: String = name.chars().take(80).collect();
        found.ok_or_else(|| Fault::not_found("OPERATION_NOT_FOUND", "operation", name))
    }

    /// Operations of `holder`, oldest first.
    pub(crate) fn list(&self, holder: [u8; 32]) -> Vec<Arc<Operation>> {
        let table = self.0.lock();
        let mut own: Vec<_> =
            table.values().filter(|operation| operation.holder == holder).cloned().collect();
        own.sort_by_key(|operation| operation.started);
        own
    }
}

/// Removes operations for which `is_enough` is true, given the time since their end, if any.
fn forget(
    table: &mut HashMap<String, Arc<Operation>>,
    is_enough: impl Fn(&Operation, Option<Duration>) -> bool,
) {
    let now = Instant::now();
    table.retain(|_, operation| {
        let age = operation.times.lock().ended.map(|ended| now.saturating_duration_since(ended));
        !is_enough(operation, age)
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(operations: &Operations, holder: u8) -> Result<Arc<Operation>, Fault> {
        operations.begin([holder; 32], "ab".to_owned(), v1::Priority::Interactive)
    }

    #[test]
    fn a_tenant_s_operations_are_its_own_and_bounded() {
        let operations = Operations::default();
        let first = begin(&operations, 1).unwrap();
        for _ in 1..OPERATIONS_PER_TENANT_MAX {
            begin(&operations, 1).unwrap();
        }
        assert_eq!(begin(&operations, 1).unwrap_err().reason(), "OPERATIONS_FULL");
        assert!(operations.list([1; 32]).is_sorted_by_key(|operation| operation.started));
        let other = begin(&operations, 2).unwrap();
        assert!(operations.find([1; 32], &other.name).is_err());
        assert_eq!(operations.list([2; 32]).len(), 1);
        // Ended ones make space, but not those of others.
        first.go_on(State::Running);
        first.cancel();
        other.cancel();
        assert!(begin(&operations, 1).is_ok());
        assert!(operations.find([1; 32], &first.name).is_err());
        assert!(operations.find([2; 32], &other.name).is_ok());
    }

    #[test]
    fn what_has_ended_stays_as_it_is() {
        let operation = begin(&Operations::default(), 1).unwrap();
        assert_eq!(operation.to_message().state(), v1::OperationState::Queued);
        operation.go_on(State::Failed(Fault::invalid("X", "y")));
        operation.go_on(State::Running);
        operation.cancel();
        let reported = operation.to_message();
        assert_eq!((reported.state(), reported.error.unwrap().code), (v1::OperationState::Failed, 3));
    }
}
