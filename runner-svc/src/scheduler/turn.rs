//! What comes of work when it is its turn: a worker, or an answer that was there before.

use std::time::Duration;

use crate::race::{Interpreted, RunTimer};
use antares_pool::Verdict;
use antares_serve::Account;

use crate::{
    ended::ExecuteError,
    scheduler::{Scheduler, lease::Leased, queue::Slot},
    tenant::Tenant,
};

/// A worker's answer, and when it began.
pub(crate) type Answered<R> = Interpreted<Leased<Verdict<R>>>;

/// What there is for work whose turn has come.
pub(crate) enum Turn<R> {
    Worker(Slot),
    /// The interpreter's answer, which did not wait for native code.
    Answered(Answered<R>),
}

impl<R> Turn<R> {
    /// The answer: where there is none yet, that of `run`. Its time is charged also if nobody waits for its
    /// end any more.
    pub(crate) async fn answer<F>(
        self,
        account: &Account,
        cycles_max: u64,
        run: impl FnOnce(Slot) -> F,
    ) -> Result<Answered<R>, ExecuteError>
    where
        F: Future<Output = Result<Leased<Verdict<R>>, ExecuteError>>,
    {
        let slot = match self {
            Self::Worker(slot) => slot,
            Self::Answered(answered) => return Ok(answered),
        };
        let mut timer = RunTimer::begin(|time| account.ran_for(time, cycles_max));
        let Interpreted { answer, began } = timer.heard(run(slot).await);
        Ok(Answered { answer: answer?, began })
    }
}

impl Scheduler {
    /// Waits for the turn of `tenant`, unless there is an answer already. Gives how long that was.
    pub(crate) async fn turn<R>(
        &self,
        tenant: &Tenant,
        answered: Option<Answered<R>>,
    ) -> Result<(Turn<R>, Duration), ExecuteError> {
        match answered {
            Some(answered) => Ok((Turn::Answered(answered), Duration::ZERO)),
            None => self.slot(tenant).await.map(|(slot, queue)| (Turn::Worker(slot), queue)),
        }
    }
}
