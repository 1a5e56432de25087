//! Shadow runs: another worker repeats some native runs, and those that callers select, in the interpreter,
//! and compares them. That finds wrong code that the sandbox misses, bars it and reports it.

use std::{
    num::NonZeroU64,
    sync::Arc,
    time::{Duration, Instant},
};

use antares_pool::{
    Pool, PoolError, Sealed, Until, Verdict,
    job::{BatchJob, GroupReport, RunJob, RunReport, Tier, VerifyJob, VerifyReport},
};
use antares_serve::{Metrics, Repeats};

use crate::{
    artifacts::{Artifacts, ready::Used},
    charge::Bill,
    ended::{Found, Verified},
    scheduler::{Scheduler, lease::TimeLimits},
    tenant::Tenant,
    verify::order::ExtraFiles,
};

/// Factor by which the interpreter may exceed the native run's limit.
const TIMES_LONGER: u32 = 4;

/// Randomly drawn runs repeated at once; beyond that they are skipped.
const AT_ONCE: usize = 2;

/// Selects runs to repeat, and counts the results.
pub(crate) struct ShadowRuns {
    repeats: Repeats,
    artifacts: Arc<Artifacts>,
    scheduler: Arc<Scheduler>,
}

/// Native work to be repeated.
pub(crate) struct ShadowRun<A> {
    work: A,
    time: Duration,
    is_asked: bool,
}

impl ShadowRuns {
    /// Repeats one in this many native runs, if any.
    pub(crate) fn new(
        one_in: Option<NonZeroU64>,
        artifacts: &Arc<Artifacts>,
        scheduler: &Arc<Scheduler>,
        metrics: &Metrics,
    ) -> Self {
        let help = "Native runs repeated in the interpreter, by result.";
        let repeats = Repeats::new(one_in, AT_ONCE, metrics, ("antares_rechecks_total", help));
        Self { repeats, artifacts: artifacts.clone(), scheduler: scheduler.clone() }
    }

    /// Data for repeating `runs` native runs that may take `time` together, if the caller requests it or one
    /// is drawn.
    pub(crate) fn draw<A>(
        &self,
        is_asked: bool,
        runs: usize,
        time: Duration,
        work: impl FnOnce() -> A,
    ) -> Option<ShadowRun<A>> {
        let time = time.saturating_mul(TIMES_LONGER);
        (is_asked || self.repeats.is_drawn(runs)).then(|| ShadowRun { work: work(), time, is_asked })
    }

    /// Repeats the work that reported `first` with the native code `used`, for `tenant`: before the response
    /// if the caller requested it, otherwise in the background. Returns the trusted result and, if requested,
    /// the outcome.
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
        let Some(place) = self.repeats.place() else { return (first, None) };
        let (shadows, tenant, used, native) = (self.clone(), tenant.clone(), used.to_vec(), first.clone());
        tokio::spawn(async move {
            shadows.run_again(&tenant, &used, shadow, &native).await;
            drop(place);
        });
        (first, None)
    }

    /// Returns the outcome, and the interpreter's report if it differs.
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
        self.repeats.record(found);
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
}

// Work to repeat in the interpreter, and the differences between two runs of it.

/// Work that the interpreter can repeat.
pub(crate) trait Again: Send + Sized + 'static {
    type Report: Clone + Send + Sync;

    /// Runs it in the interpreter. Returns nothing if it did not end.
    fn run(&self, pool: &Pool, until: Until) -> Result<Option<Self::Report>, PoolError>;

    /// The difference between the two reports, as text.
    fn difference(native: &Self::Report, interpreted: &Self::Report) -> Option<String>;

    fn cycles(told: &Self::Report) -> u64;
}

/// One run.
pub(crate) struct RunAgain {
    pub(crate) job: RunJob,
    pub(crate) elf: Arc<Sealed>,
}

/// All runs of a batch.
pub(crate) struct BatchAgain {
    pub(crate) job: BatchJob,
    pub(crate) elf: Arc<Sealed>,
}

/// All selected groups of a transaction.
pub(crate) struct VerifyAgain {
    pub(crate) job: VerifyJob,
    pub(crate) files: ExtraFiles,
}

impl Again for RunAgain {
    type Report = RunReport;

    fn run(&self, pool: &Pool, until: Until) -> Result<Option<RunReport>, PoolError> {
        let job = RunJob { tier: Tier::Interpreter, sample_cycles: 0, ..self.job.clone() };
        Ok(done(pool.run(&job, &self.elf, None, until)?))
    }

    fn difference(native: &RunReport, interpreted: &RunReport) -> Option<String> {
        (!is_equal(native, interpreted))
            .then(|| format!("natively: {}; interpreted: {}", words(native), words(interpreted)))
    }

    fn cycles(told: &RunReport) -> u64 {
        told.cycles
    }
}

impl Again for BatchAgain {
    type Report = Vec<RunReport>;

    fn run(&self, pool: &Pool, until: Until) -> Result<Option<Self::Report>, PoolError> {
        let job = BatchJob { tier: Tier::Interpreter, sample_cycles: 0, ..self.job.clone() };
        let end = pool.batch(&job, &self.elf, None, until)?;
        Ok(done(end.verdict).map(|_| end.reports))
    }

    fn difference(native: &Self::Report, interpreted: &Self::Report) -> Option<String> {
        let mut pairs = native.iter().zip(interpreted).enumerate();
        let differs = pairs.find_map(|(at, (native, interpreted))| {
            RunAgain::difference(native, interpreted).map(|words| format!("input {at}: {words}"))
        });
        let (ours, theirs) = (native.len(), interpreted.len());
        differs.or_else(|| (ours != theirs).then(|| format!("natively {ours} runs; interpreted {theirs}")))
    }

    fn cycles(told: &Self::Report) -> u64 {
        told.iter().map(|report| report.cycles).fold(0, u64::saturating_add)
    }
}

impl Again for VerifyAgain {
    type Report = Verified;

    fn run(&self, pool: &Pool, until: Until) -> Result<Option<Verified>, PoolError> {
        // The judging worker has never run the code it judges.
        let (tier, libraries) = (Tier::Interpreter, Vec::new());
        let job = VerifyJob { tier, libraries, sample_cycles: 0, is_alone: true, ..self.job.clone() };
        Ok(match done(self.files.lease(|files| pool.verify(&job, files, until))?) {
            Some(VerifyReport::Done { outcome, cycles, groups, read_us, run_us, .. }) => {
                Some(Verified { outcome, cycles, groups, read_us, run_us })
            }
            Some(VerifyReport::Refused { .. }) | None => None,
        })
    }

    fn difference(native: &Verified, interpreted: &Verified) -> Option<String> {
        let told = |verified: &Verified| (verified.outcome, verified.cycles, verified.groups.len());
        let mut pairs = native.groups.iter().zip(&interpreted.groups).enumerate();
        let differs = pairs.find(|(_, (native, interpreted))| !are_equal(native, interpreted));
        if let Some((at, (native, interpreted))) = differs {
            let words = |group: &GroupReport| format!("{:?}, {} cycles", group.outcome, group.cycles);
            return Some(format!(
                "group {at}: natively: {}; interpreted: {}",
                words(native),
                words(interpreted)
            ));
        }
        let (ours, theirs) = (told(native), told(interpreted));
        (ours != theirs).then(|| format!("natively: {ours:?}; interpreted: {theirs:?}"))
    }

    fn cycles(told: &Verified) -> u64 {
        told.cycles
    }
}

fn done<R>(verdict: Verdict<R>) -> Option<R> {
    match verdict {
        Verdict::Done(report) => Some(report),
        _ => None,
    }
}

fn words(report: &RunReport) -> String {
    format!("{:?}, {} + {} cycles", report.outcome, report.load_cycles, report.cycles)
}

/// Whether two runs reported the same.
fn is_equal(first: &RunReport, second: &RunReport) -> bool {
    first.outcome == second.outcome
        && (first.cycles, first.load_cycles) == (second.cycles, second.load_cycles)
        && first.debug == second.debug
}

/// Like [`is_equal`], for groups of a transaction.
fn are_equal(first: &GroupReport, second: &GroupReport) -> bool {
    let told = |group: &GroupReport| {
        let GroupReport { script_hash, kind, outcome, exit_code, cycles, .. } = group;
        (*script_hash, *kind, *outcome, *exit_code, *cycles)
    };
    told(first) == told(second)
        && first.error == second.error
        && (&first.inputs, &first.outputs) == (&second.inputs, &second.outputs)
        && first.debug == second.debug
}
