//! Explains why a script failed, on request: a jailed worker repeats the run in the interpreter and writes
//! the text. Nothing here parses script data.

use std::{sync::Arc, time::Instant};

use antares_diagnosis::Diagnosis;
use antares_pool::{
    Pool, PoolError, Sealed, Until, Verdict,
    job::{
        CellName, DiagnosisJob, DiagnosisReport, GroupReport, ProfileJob, ProfiledReport, RunJob, RunOutcome,
        RunReport, Tier, VerifyJob, VerifyOutcome, VerifyReport,
    },
};
use antares_profile::evidence::limits::{FOLLOWED_CYCLES, STEPS_DEFAULT, SYSTEM_CALLS_DEFAULT};
use antares_serve::Metrics;
use prometheus::IntCounterVec;
use strum::VariantNames as _;
use tokio::{sync::Semaphore, time::timeout};
use tracing::Instrument;

use crate::{
    artifacts::{Artifacts, ready::Used},
    charge::Bill,
    diagnosis::{Budget, Diagnosed, Missing},
    ended::{Ended, ExecuteError, Verified},
    limits::{DIAGNOSES_AT_ONCE_MAX, DIAGNOSES_OF_BATCH_MAX, DIAGNOSIS_BYTES_MAX, DIAGNOSIS_TIME_MAX},
    scheduler::{Scheduler, lease::TimeLimits},
    shadow_runs::VerifyAgain,
    tenant::Tenant,
};

/// A run that may have failed, to be repeated.
pub(crate) struct Failing {
    pub(crate) job: RunJob,
    pub(crate) elf: Arc<Sealed>,
}

/// Diagnoses failed runs, a bounded number at once.
pub(crate) struct Diagnoses {
    places: Semaphore,
    results: IntCounterVec,
    artifacts: Arc<Artifacts>,
    scheduler: Arc<Scheduler>,
}

impl Diagnoses {
    pub(crate) fn new(
        workers_max: usize,
        artifacts: &Arc<Artifacts>,
        scheduler: &Arc<Scheduler>,
        metrics: &Metrics,
    ) -> Self {
        let help = "Requested diagnoses of failed runs, by result.";
        let values = [&["told"], Missing::VARIANTS].concat();
        let results = metrics.counters_of("antares_diagnoses_total", help, "result", &values);
        // Half of the workers at most: the rest stay free for other runs.
        let places = (workers_max / 2).clamp(1, DIAGNOSES_AT_ONCE_MAX);
        let (artifacts, scheduler) = (artifacts.clone(), scheduler.clone());
        Self { places: Semaphore::new(places), results, artifacts, scheduler }
    }

    fn record(&self, result: &str) {
        self.results.with_label_values(&[result]).inc();
    }

    /// Why `ended`, a run of the native code `used`, failed; nothing if it succeeded.
    pub(crate) async fn why_run(
        &self,
        tenant: &Tenant,
        used: &[Used],
        Failing { job, elf }: Failing,
        ended: &Ended,
        deadline: Instant,
    ) -> Option<Diagnosed> {
        let first = match ended {
            _ if !has_failed(ended) => return None,
            Ended::Reported(report) => report,
            Ended::DeadlineExceeded | Ended::SandboxViolation { .. } => {
                return Some(self.missing(Missing::Unfinished));
            }
        };
        let job = RunJob { tier: Tier::Interpreter, sample_cycles: 0, ..job };
        let job = diagnosis_job(ProfileJob::Run(job), first.cycles);
        let work = move |pool: &Pool, until: Until| pool.diagnose(&job, &elf, until);
        let same = |report: &ProfiledReport| match report {
            ProfiledReport::Run(second) => (&first.outcome, first.cycles) == (&second.outcome, second.cycles),
            ProfiledReport::Verify(_) => false,
        };
        Some(self.why(tenant, used, deadline, work, same).await)
    }

    /// Why runs of a batch failed, one after another, up to the limit.
    pub(crate) async fn why_batch(
        &self,
        tenant: &Tenant,
        used: &[Used],
        runs: Vec<Failing>,
        results: &[Option<Ended>],
        deadline: Instant,
    ) -> Vec<Option<Diagnosed>> {
        let budget = Budget::new(DIAGNOSES_OF_BATCH_MAX);
        let mut told = Vec::new();
        for (failing, ended) in runs.into_iter().zip(results) {
            told.push(match ended {
                Some(ended) if has_failed(ended) => match budget.take() {
                    true => self.why_run(tenant, used, failing, ended, deadline).await,
                    false => Some(self.missing(Missing::TooMany)),
                },
                _ => None,
            });
        }
        told
    }

    /// Why a group of a transaction failed: the first that did.
    pub(crate) async fn why_group(
        &self,
        tenant: &Tenant,
        used: &[Used],
        (VerifyAgain { job, files }, budget): (VerifyAgain, &Budget),
        ended: &Ended<Verified>,
        deadline: Instant,
    ) -> Option<Diagnosed> {
        let verified = match ended {
            Ended::Reported(verified) => verified,
            Ended::DeadlineExceeded | Ended::SandboxViolation { .. } => {
                return Some(self.missing(Missing::Unfinished));
            }
        };
        let at = verified.groups.iter().position(|group| group.outcome == VerifyOutcome::Failed)?;
        if !budget.take() {
            return Some(self.missing(Missing::TooMany));
        }
        let (before, first) = (&verified.groups[..at], &verified.groups[at]);
        let before = before.iter().map(|group| group.cycles).fold(0, u64::saturating_add);
        let Some(cell) = cell_of(first) else { return Some(self.missing(Missing::NothingRan)) };
        let job = VerifyJob {
            group: Some((first.kind, cell)),
            tier: Tier::Interpreter,
            cycles_max: job.cycles_max.saturating_sub(before),
            libraries: Vec::new(),
            library_digests: Vec::new(),
            is_alone: true,
            sample_cycles: 0,
            ..job
        };
        let job = diagnosis_job(ProfileJob::Verify(job), first.cycles);
        let work = move |pool: &Pool, until: Until| {
            files.lease(|files| pool.diagnose_transaction(&job, files, until))
        };
        let same = |report: &ProfiledReport| match report {
            ProfiledReport::Verify(VerifyReport::Done { groups, .. }) => {
                let second = groups.iter().find(|group| group.outcome != VerifyOutcome::NotRun);
                second.is_some_and(|second| is_same_group(first, second))
            }
            ProfiledReport::Verify(VerifyReport::Refused { .. }) | ProfiledReport::Run(_) => false,
        };
        Some(self.why(tenant, used, deadline, work, same).await)
    }

    fn missing(&self, why: Missing) -> Diagnosed {
        self.record(why.into_str());
        Diagnosed::Missing(why)
    }

    async fn why(
        &self,
        tenant: &Tenant,
        used: &[Used],
        deadline: Instant,
        work: impl FnMut(&Pool, Until) -> Result<Verdict<DiagnosisReport>, PoolError> + Send + 'static,
        same: impl Fn(&ProfiledReport) -> bool,
    ) -> Diagnosed {
        let report =
            self.run_watched(tenant, deadline, work).instrument(tracing::info_span!("diagnosis")).await;
        let told = report.and_then(|report| {
            if !same(&report.report.report) {
                self.artifacts.bar(used, "the run that was to tell why a script failed ended otherwise");
                return Err(Missing::Different);
            }
            reported(report)
        });
        match told {
            Ok(told) => {
                self.record("told");
                told
            }
            Err(why) => self.missing(why),
        }
    }

    /// Repeats the run within the time limit, so that the first result can still be answered.
    async fn run_watched(
        &self,
        tenant: &Tenant,
        deadline: Instant,
        work: impl FnMut(&Pool, Until) -> Result<Verdict<DiagnosisReport>, PoolError> + Send + 'static,
    ) -> Result<DiagnosisReport, Missing> {
        // The response needs the rest.
        let time = (deadline.saturating_duration_since(Instant::now()) / 2).min(DIAGNOSIS_TIME_MAX);
        let until = Instant::now() + time;
        let leased = async {
            let _place = self.places.acquire().await.map_err(|_| Missing::WorkersBusy)?;
            let (slot, _) = self.scheduler.slot(tenant).await.map_err(|error| match error {
                ExecuteError::Quota(_) => Missing::Quota,
                _ => Missing::WorkersBusy,
            })?;
            let left = until.saturating_duration_since(Instant::now());
            let mut bill = Bill::begin(&tenant.account);
            let limits = TimeLimits { run: left, deadline: until };
            let leased = self.scheduler.lease(slot, limits, work).await.map_err(|_| Missing::WorkersBusy)?;
            match leased.answer {
                Verdict::Done(report) => {
                    bill.reported(cycles(&report.report.report));
                    Ok(report)
                }
                Verdict::DeadlineExceeded => Err(Missing::Deadline),
                Verdict::SandboxViolation { detail }
                | Verdict::WorkerLost { detail }
                | Verdict::FalseReport { detail } => {
                    tracing::warn!(detail, "the diagnosis worker was lost");
                    Err(Missing::WorkerLost)
                }
            }
        };
        // A run ends by itself, but waiting for capacity does not.
        timeout(time, leased).await.unwrap_or(Err(Missing::Deadline))
    }
}

fn has_failed(ended: &Ended) -> bool {
    !matches!(ended, Ended::Reported(RunReport { outcome: RunOutcome::Exit(0), .. }))
}

fn diagnosis_job(job: ProfileJob, cycles: u64) -> DiagnosisJob {
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    DiagnosisJob {
        job,
        follow_from: cycles.saturating_sub(FOLLOWED_CYCLES),
        system_calls_max: count(SYSTEM_CALLS_DEFAULT),
        steps_max: count(STEPS_DEFAULT),
        reported_bytes_max: DIAGNOSIS_BYTES_MAX,
    }
}

/// The worker's report. The worker has read a hostile script, so this passes on only well-formed diagnoses.
fn reported(report: DiagnosisReport) -> Result<Diagnosed, Missing> {
    if report.reported.is_empty() {
        let is_empty = cycles(&report.report.report) == 0;
        return Err(if is_empty { Missing::NothingRan } else { Missing::TooLong });
    }
    match Diagnosis::from_json(&report.reported) {
        Ok(Diagnosis { summary, .. }) => Ok(Diagnosed::Told { summary, json: report.reported }),
        Err(error) => {
            tracing::warn!(%error, "a worker reported an invalid diagnosis");
            Err(Missing::WorkerLost)
        }
    }
}

fn cycles(report: &ProfiledReport) -> u64 {
    match report {
        ProfiledReport::Run(report) => report.cycles,
        ProfiledReport::Verify(VerifyReport::Done { cycles, .. }) => *cycles,
        ProfiledReport::Verify(VerifyReport::Refused { .. }) => 0,
    }
}

fn is_same_group(first: &GroupReport, second: &GroupReport) -> bool {
    let end = |group: &GroupReport| (group.script_hash, group.outcome, group.exit_code, group.cycles);
    end(first) == end(second)
}

/// One of the cells that name a group.
fn cell_of(group: &GroupReport) -> Option<CellName> {
    let input = group.inputs.first().copied().map(CellName::Input);
    input.or_else(|| group.outputs.first().copied().map(CellName::Output))
}
