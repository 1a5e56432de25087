//! A share of native runs is run again in the interpreter, by another worker, and compared: code that is wrong where no fence notices is
//! found, taken out of use, and told of.

use std::{fmt, sync::Arc, time::Duration};

use antares_pool::{
    Pool, Sealed, Verdict,
    job::{RunJob, RunOutcome, RunReport, Tier},
};
use antares_serve::Metrics;
use prometheus::IntCounterVec;
use tokio::{sync::Semaphore, time::Instant};

use crate::{execute::Shared, library::Used, tenant::Tenant};

/// How much longer than the native run's limit the interpreter may take.
const PATIENCE: u32 = 4;

/// Runs that are run again at once; beyond that they are passed over.
const AT_ONCE: usize = 2;

/// How a second run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Equal,
    Different,
    /// There was no room or no time for it.
    PassedOver,
}

impl Found {
    const ALL: [Self; 3] = [Self::Equal, Self::Different, Self::PassedOver];

    fn name(self) -> &'static str {
        match self {
            Self::Equal => "equal",
            Self::Different => "different",
            Self::PassedOver => "passed_over",
        }
    }
}

/// Which runs are run again, and what came of it.
pub(crate) struct Recheck {
    /// One native run in so many; 0 for none.
    one_in: u64,
    places: Arc<Semaphore>,
    results: IntCounterVec,
}

/// A native run that is to be run again.
pub(crate) struct Second {
    job: RunJob,
    elf: Arc<Sealed>,
    time: Duration,
}

/// What two runs of a script must have in common, debug output included.
struct Told<'a>(&'a RunReport);

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = self.0;
        write!(f, "{:?}, {} + {} cycles", report.outcome, report.load_cycles, report.cycles)
    }
}

impl Recheck {
    pub(crate) fn new(one_in: u64, metrics: &Metrics) -> Self {
        let help = "Native runs that were run again in the interpreter, by what came of it.";
        let results = metrics.counters("antares_rechecks_total", help, &["result"]);
        for result in Found::ALL {
            results.with_label_values(&[result.name()]);
        }
        Self { one_in, places: Arc::new(Semaphore::new(AT_ONCE)), results }
    }

    /// What has to be known to run `job` again, if the lot falls on it.
    pub(crate) fn draw(&self, job: &RunJob, elf: &Arc<Sealed>, time: Duration) -> Option<Second> {
        let is_drawn = self.one_in > 0 && rand::random::<u64>().is_multiple_of(self.one_in);
        is_drawn.then(|| Second {
            job: RunJob { tier: Tier::Interpreter, sample_cycles: 0, ..job.clone() },
            elf: elf.clone(),
            time: time.saturating_mul(PATIENCE),
        })
    }

    fn note(&self, result: Found) {
        self.results.with_label_values(&[result.name()]).inc();
    }
}

impl Shared {
    /// Runs `second` behind the answer, and puts the native code of the first run into quarantine if they differ.
    pub(crate) fn recheck(self: &Arc<Self>, tenant: &Tenant, used: Used, second: Second, first: &RunReport) {
        let Ok(place) = self.recheck.places.clone().try_acquire_owned() else {
            return self.recheck.note(Found::PassedOver);
        };
        let (shared, tenant, first) = (self.clone(), tenant.clone(), first.clone());
        tokio::spawn(async move {
            let result = shared.run_again(&tenant, used, second, &first).await;
            shared.recheck.note(result);
            drop(place);
        });
    }

    async fn run_again(&self, tenant: &Tenant, used: Used, second: Second, first: &RunReport) -> Found {
        let Ok((slot, _)) = self.slot(tenant).await else { return Found::PassedOver };
        let Second { job, elf, time } = second;
        let deadline = Instant::now() + time;
        let run = move |pool: &Pool, until| pool.run(&job, &elf, None, until);
        let lent = self.lend(slot, time, deadline.into(), run).await;
        let Ok(Verdict::Done(report)) = lent.map(|lent| lent.answer) else { return Found::PassedOver };
        if is_equal(first, &report) {
            return Found::Equal;
        }
        let detail = format!("natively: {}; interpreted: {}", Told(first), Told(&report));
        self.ready.bar(&[used], &detail);
        Found::Different
    }
}

/// Whether two runs told the same. What was written up to a limit of output is not compared: lines are cut there.
fn is_equal(first: &RunReport, second: &RunReport) -> bool {
    let is_cut = first.outcome == RunOutcome::OutputLimit;
    first.outcome == second.outcome
        && (first.cycles, first.load_cycles) == (second.cycles, second.load_cycles)
        && (is_cut || first.debug == second.debug)
}
