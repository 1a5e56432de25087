//! Shadow runs: a share of native runs, and those for which a caller asks, are run again in the interpreter,
//! by another worker, and compared. Code that is wrong where no fence notices is found, taken out of use, and
//! told of.

pub(crate) mod comparison;

use std::{
    num::NonZeroU64,
    sync::Arc,
    time::{Duration, Instant},
};

use antares_pool::Pool;
use antares_serve::Metrics;
use prometheus::IntCounterVec;
use strum::VariantNames as _;
use tokio::sync::Semaphore;

use crate::{
    artifacts::{Artifacts, ready::Used},
    charge::Bill,
    ended::Found,
    scheduler::{Scheduler, lease::TimeLimits},
    shadow_runs::comparison::Again,
    tenant::Tenant,
};

/// How much longer than the native run's limit the interpreter may take.
const TIMES_LONGER: u32 = 4;

/// Runs that the lot fell on and that are run again at once; beyond that they are passed over.
const AT_ONCE: usize = 2;

/// Which runs are run again, and what came of it.
pub(crate) struct ShadowRuns {
    one_in: Option<NonZeroU64>,
    places: Arc<Semaphore>,
    results: IntCounterVec,
    artifacts: Arc<Artifacts>,
    scheduler: Arc<Scheduler>,
}

/// Native work that is to be done again.
pub(crate) struct ShadowRun<A> {
    work: A,
    time: Duration,
    is_asked: bool,
}

impl ShadowRuns {
    /// One in so many native runs, if any.
    pub(crate) fn new(
        one_in: Option<NonZeroU64>,
        artifacts: &Arc<Artifacts>,
        scheduler: &Arc<Scheduler>,
        metrics: &Metrics,
    ) -> Self {
        let help = "Native runs that were run again in the interpreter, by what came of it.";
        let results = metrics.counters_of("antares_rechecks_total", help, "result", Found::VARIANTS);
        let (artifacts, scheduler) = (artifacts.clone(), scheduler.clone());
        Self { one_in, places: Arc::new(Semaphore::new(AT_ONCE)), results, artifacts, scheduler }
    }

    /// What has to be known to do `runs` native runs again that may take `time` together, if the caller asks
    /// or the lot falls on one.
    pub(crate) fn draw<A>(
        &self,
        is_asked: bool,
        runs: usize,
        time: Duration,
        work: impl FnOnce() -> A,
    ) -> Option<ShadowRun<A>> {
        let is_drawn = || self.one_in.is_some_and(|one_in| rand::random::<u64>() % one_in < runs as u64);
        let time = time.saturating_mul(TIMES_LONGER);
        (is_asked || is_drawn()).then(|| ShadowRun { work: work(), time, is_asked })
    }

    /// Does again what told `first` and was run by the native code `used`, for `tenant`: before its caller's
    /// answer if the caller asked, else behind it. Gives what is to be believed, and for a caller who asked
    /// what came of it.
    pub(crate) async fn compare<A: Again>(
        self: &Arc<Self>,
        tenant: &Tenant,
        used: &[Used],
        shadow: ShadowRun<A>,
        first: A::Report,
    ) -> (A::Report, Option<Found>) {
        if shadow.is_asked {
            let (found, interpreted) = self.run_again(tenant, used, shadow, &first).await;
            return (interpreted.unwrap_or(first), Some(found));
        }
        let Ok(place) = self.places.clone().try_acquire_owned() else {
            self.record(Found::PassedOver);
            return (first, None);
        };
        let (shadows, tenant, used, native) = (self.clone(), tenant.clone(), used.to_vec(), first.clone());
        tokio::spawn(async move {
            shadows.run_again(&tenant, &used, shadow, &native).await;
            drop(place);
        });
        (first, None)
    }

    /// Gives what came of it, and what the interpreter told if that is another answer.
    async fn run_again<A: Again>(
        &self,
        tenant: &Tenant,
        used: &[Used],
        shadow: ShadowRun<A>,
        first: &A::Report,
    ) -> (Found, Option<A::Report>) {
        let interpreted = self.interpret(tenant, shadow).await;
        let difference = interpreted.as_ref().map(|interpreted| A::difference(first, interpreted));
        let (found, believed) = match difference {
            None => (Found::PassedOver, None),
            Some(None) => (Found::Equal, None),
            Some(Some(detail)) => {
                self.artifacts.bar(used, &detail);
                (Found::Different, interpreted)
            }
        };
        self.record(found);
        (found, believed)
    }

    async fn interpret<A: Again>(&self, tenant: &Tenant, shadow: ShadowRun<A>) -> Option<A::Report> {
        let (slot, _) = self.scheduler.slot(tenant).await.ok()?;
        let ShadowRun { work, time, is_asked } = shadow;
        let mut bill = is_asked.then(|| Bill::begin(&tenant.account));
        let limits = TimeLimits { run: time, deadline: Instant::now() + time };
        let run = move |pool: &Pool, until| work.run(pool, until);
        let told = self.scheduler.lease(slot, limits, run).await.ok().and_then(|leased| leased.answer);
        if let Some(bill) = &mut bill {
            told.as_ref().map(A::cycles).into_iter().for_each(|cycles| bill.reported(cycles));
        }
        told
    }

    fn record(&self, result: Found) {
        self.results.with_label_values(&[result.into_str()]).inc();
    }
}
