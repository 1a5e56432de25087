//! A share of native runs, and those for which a caller asks, are run again in the interpreter, by another
//! worker, and compared: code that is wrong where no fence notices is found, taken out of use, and told of.

use std::{num::NonZeroU64, sync::Arc, time::Duration};

use antares_pool::{
    Pool, PoolError, Sealed, Until, Verdict,
    job::{BatchJob, GroupReport, RunJob, RunReport, Tier, VerifyJob, VerifyReport},
};
use antares_serve::Metrics;
use prometheus::IntCounterVec;
use tokio::sync::Semaphore;

use crate::{
    ended::{Found, Verified},
    files_beside::FilesBeside,
};

/// How much longer than the native run's limit the interpreter may take.
const PATIENCE: u32 = 4;

/// Runs that the lot fell on and that are run again at once; beyond that they are passed over.
const AT_ONCE: usize = 2;

/// Which runs are run again, and what came of it.
pub(crate) struct Recheck {
    /// One native run in so many, if any are.
    one_in: Option<NonZeroU64>,
    pub(crate) places: Arc<Semaphore>,
    results: IntCounterVec,
}

/// Work that can be done again, interpreted.
pub(crate) trait Again: Send + Sized + 'static {
    type Told: Clone + Send + Sync;

    /// Does it in the interpreter. Gives nothing if that did not come to its end.
    fn run(self, pool: &Pool, until: Until) -> Result<Option<Self::Told>, PoolError>;

    /// What the two told differently, in words.
    fn difference(native: &Self::Told, interpreted: &Self::Told) -> Option<String>;

    fn cycles(told: &Self::Told) -> u64;
}

/// Native work that is to be done again.
pub(crate) struct Second<A> {
    pub(crate) work: A,
    pub(crate) time: Duration,
    /// Whether a caller waits for it, and pays.
    pub(crate) is_asked: bool,
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

/// All groups of a transaction that were asked for.
pub(crate) struct VerifyAgain {
    pub(crate) job: VerifyJob,
    pub(crate) files: FilesBeside,
}

impl Again for RunAgain {
    type Told = RunReport;

    fn run(self, pool: &Pool, until: Until) -> Result<Option<RunReport>, PoolError> {
        let job = RunJob { tier: Tier::Interpreter, sample_cycles: 0, ..self.job };
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
    type Told = Vec<RunReport>;

    fn run(self, pool: &Pool, until: Until) -> Result<Option<Self::Told>, PoolError> {
        let job = BatchJob { tier: Tier::Interpreter, sample_cycles: 0, ..self.job };
        let end = pool.batch(&job, &self.elf, None, until)?;
        Ok(done(end.verdict).map(|_| end.reports))
    }

    fn difference(native: &Self::Told, interpreted: &Self::Told) -> Option<String> {
        let mut pairs = native.iter().zip(interpreted).enumerate();
        let differs = pairs.find_map(|(at, (native, interpreted))| {
            RunAgain::difference(native, interpreted).map(|words| format!("input {at}: {words}"))
        });
        let (ours, theirs) = (native.len(), interpreted.len());
        differs.or_else(|| (ours != theirs).then(|| format!("natively {ours} runs; interpreted {theirs}")))
    }

    fn cycles(told: &Self::Told) -> u64 {
        told.iter().map(|report| report.cycles).fold(0, u64::saturating_add)
    }
}

impl Again for VerifyAgain {
    type Told = Verified;

    fn run(self, pool: &Pool, until: Until) -> Result<Option<Verified>, PoolError> {
        // Whoever judges has never run what it judges.
        let (tier, libraries) = (Tier::Interpreter, Vec::new());
        let job = VerifyJob { tier, libraries, sample_cycles: 0, is_alone: true, ..self.job };
        Ok(match done(self.files.lend(|files| pool.verify(&job, files, until))?) {
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

impl Recheck {
    pub(crate) fn new(one_in: Option<NonZeroU64>, metrics: &Metrics) -> Self {
        let help = "Native runs that were run again in the interpreter, by what came of it.";
        let results = metrics.counters("antares_rechecks_total", help, &["result"]);
        for result in Found::ALL {
            results.with_label_values(&[result.name()]);
        }
        Self { one_in, places: Arc::new(Semaphore::new(AT_ONCE)), results }
    }

    /// What has to be known to do `runs` native runs again that may take `time` together, if the caller asks
    /// or the lot falls on one.
    pub(crate) fn draw<A>(
        &self,
        is_asked: bool,
        runs: usize,
        time: Duration,
        work: impl FnOnce() -> A,
    ) -> Option<Second<A>> {
        let is_drawn = || self.one_in.is_some_and(|one_in| rand::random::<u64>() % one_in < runs as u64);
        let time = time.saturating_mul(PATIENCE);
        (is_asked || is_drawn()).then(|| Second { work: work(), time, is_asked })
    }

    pub(crate) fn note(&self, result: Found) {
        self.results.with_label_values(&[result.name()]).inc();
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

/// Whether two runs told the same.
fn is_equal(first: &RunReport, second: &RunReport) -> bool {
    first.outcome == second.outcome
        && (first.cycles, first.load_cycles) == (second.cycles, second.load_cycles)
        && first.debug == second.debug
}

/// As [`is_equal`], for groups of a transaction.
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
