//! What is done again in the interpreter, and in what two runs of it differ.

use std::sync::Arc;

use antares_pool::{
    Pool, PoolError, Sealed, Until, Verdict,
    job::{BatchJob, GroupReport, RunJob, RunReport, Tier, VerifyJob, VerifyReport},
};

use crate::{ended::Verified, verify::order::ExtraFiles};

/// Work that can be done again, interpreted.
pub(crate) trait Again: Send + Sized + 'static {
    type Report: Clone + Send + Sync;

    /// Does it in the interpreter. Gives nothing if that did not come to its end.
    fn run(&self, pool: &Pool, until: Until) -> Result<Option<Self::Report>, PoolError>;

    /// What the two told differently, in words.
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

/// All groups of a transaction that were asked for.
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
        // Whoever judges has never run what it judges.
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
