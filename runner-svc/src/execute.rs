//! One execution, from a checked order to how the script ended: get the script, get native code, wait for a
//! worker, run.

pub(crate) mod batch;
pub(crate) mod order;
pub(crate) mod race;
pub(crate) mod sampling;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::time::timeout_at;
use tracing::Instrument;

use crate::{
    artifacts::native::Native,
    artifacts::prepare::Prepared,
    artifacts::ready::Used,
    charge::{Unfinished, charge_run, tell_spans},
    diagnosis::diagnose::Failing,
    ended::{Ended, ExecuteError, Execution},
    execute::order::Order,
    execute::race::Turn,
    runner::{Runner, Shared},
    shadow_runs::comparison::RunAgain,
};

impl Runner {
    /// Runs `order`. The caller waits until `deadline` at most. One that goes away earlier frees its worker
    /// at once.
    pub(crate) async fn execute(&self, order: Order, deadline: Instant) -> Result<Execution, ExecuteError> {
        let started = Instant::now();
        let steps = self.shared.clone().steps(order, deadline);
        let mut result = timeout_at(deadline.into(), steps).await.unwrap_or(Err(ExecuteError::CallDeadline));
        if let Ok(execution) = &mut result {
            execution.wall = started.elapsed();
        }
        self.shared.metrics.note(&result, started.elapsed());
        result
    }
}

impl Shared {
    async fn steps(self: Arc<Self>, order: Order, deadline: Instant) -> Result<Execution, ExecuteError> {
        let Order { tenant, script, job, run_time, recheck, diagnosis } = order;
        tenant.account.may_run().map_err(ExecuteError::Quota)?;
        let sample_salt = (job.sample_cycles > 0).then_some(job.sample_salt);
        let (prepared, answered) = self.prepare_or_run(&tenant, script, &job, (run_time, deadline)).await?;
        let Prepared { script, native, fallback, fetch } = prepared;
        let (native, fallback) = self.unless_left_early(&tenant.account, job.tier, (native, fallback));
        let (turn, mut queue) =
            self.turn(&tenant, answered).instrument(tracing::debug_span!("queue")).await?;
        let origin = native.as_ref().map(Native::origin);
        let keys = origin.map(|origin| Used::of(&tenant.account, origin.key));
        self.metrics.note_native(origin.as_slice().iter().map(|origin| origin.tier), 1);
        let elf = script.elf;
        let again = || RunAgain { job: job.clone(), elf: elf.clone() };
        let failing = diagnosis.then(|| Failing { job: job.clone(), elf: elf.clone() });
        let second = keys.and_then(|_| self.recheck.draw(recheck, 1, run_time, again));
        let library = native.as_ref().map(|native| native.library.clone());
        let work = async {
            let cycles_max = job.cycles_max;
            let (lent, began) = match turn {
                Turn::Worker(slot) => {
                    let began = Instant::now();
                    let unfinished = Unfinished::begin(&tenant.account, cycles_max);
                    let lent = self.run_one(slot, run_time, deadline, job, elf, library).await;
                    unfinished.over();
                    (lent?, began)
                }
                Turn::Answered(answered) => (answered.answer, answered.began),
            };
            charge_run(&tenant.account, &lent.answer, began.elapsed(), cycles_max);
            let ended = self.judge(lent, keys.as_slice())?;
            if let Ended::Reported(report) = &ended {
                let told = Duration::from_micros(report.load_us + report.run_us);
                queue += began.elapsed().saturating_sub(told);
                tell_spans(report);
            }
            Ok::<_, ExecuteError>(ended)
        };
        let mut ended = work.instrument(tracing::debug_span!("worker")).await?;
        self.keep_profile(&tenant.name, script.digest, &ended);
        self.learn_from(&tenant.account, native.as_ref(), &ended);
        if let Ended::Reported(report) = &ended {
            self.note_left(&tenant.account, origin, report);
        }
        let mut recheck = None;
        if let (Some(second), Ended::Reported(first)) = (second, &mut ended) {
            (*first, recheck) = self.recheck(&tenant, keys.as_slice(), second, first.clone()).await;
        }
        let mut diagnosis = None;
        if let Some(failing) = failing {
            diagnosis = self.why_run(&tenant, keys.as_slice(), failing, &ended, deadline).await;
        }
        let (script, native) = (script.digest, origin);
        let wall = Duration::ZERO;
        Ok(Execution { script, ended, native, fallback, fetch, queue, wall, sample_salt, recheck, diagnosis })
    }
}
