//! The supervisor's facts about a job, against which it checks the worker's report.
//!
//! The script that a worker runs may control the worker. Each number and text in its report must be possible
//! for this job; otherwise the whole report is false.

mod compiles;
mod groups;
mod profiles;
mod runs;

use std::{sync::Arc, time::Duration};

use antares_abi::{CompileLimits, Sha256Digest};

use crate::{
    Sealed,
    job::{
        BatchJob, BatchReport, CellName, CompileReport, CompileTask, DiagnosisJob, GroupKind, KnownGroup,
        ProfileJob, RunJob, RunReport, RunWorkerReport, Tier, VerifyJob,
    },
    text::TEXT_BYTES_MAX,
};

/// Charge for a line of debug output in a batch, in addition to its bytes and its end.
const BATCH_LINE_BYTES: u64 = 31;
/// Maximum cycles of a failed script beyond its limit: system calls add theirs before the check, and the
/// largest one moves all of guest memory.
const CYCLES_BEYOND_MAX: u64 = 16 << 20;
/// Maximum difference between the clocks of a worker and its supervisor.
const CLOCK_TOLERANCE: Duration = Duration::from_millis(1);
/// Bytes of the longest line that a script can write: guest memory.
const LINE_BYTES_MAX: u64 = 4 << 20;

/// Whether a report can be true; otherwise the reason why not.
pub(crate) type Checked = Result<(), &'static str>;

/// Facts about a job.
#[derive(Debug)]
pub(crate) enum Known {
    Run(KnownRun),
    Batch { each: KnownRun, inputs: usize, output_bytes_max: u64 },
    Verify(KnownVerification),
    Profile(Box<Known>),
    Diagnosis { job: Box<Known>, reported_bytes_max: u32 },
    Compile { task: CompileTask, limits: CompileLimits },
}

impl Known {
    /// Facts about the runs of a batch.
    pub(crate) fn batch(job: &BatchJob, elf: &Sealed, has_library: bool) -> Self {
        let terms = Terms::new(job.tier, has_library, job.cycles_max, job.sample_cycles);
        let each = KnownRun { terms, script: elf.digest() };
        Self::Batch { each, inputs: job.inputs.len(), output_bytes_max: job.output_bytes_max }
    }

    /// Facts about a run or a verification that is always interpreted.
    pub(crate) fn interpreted(job: &ProfileJob, file: &Sealed) -> Self {
        match job {
            ProfileJob::Run(job) => Self::Run(KnownRun::new(job, file, false)),
            ProfileJob::Verify(job) => {
                Self::Verify(KnownVerification { may_be_hot: false, ..KnownVerification::new(job, 0) })
            }
        }
    }

    pub(crate) fn diagnosis(job: &DiagnosisJob, file: &Sealed) -> Self {
        let reported_bytes_max = job.reported_bytes_max;
        Self::Diagnosis { job: Box::new(Self::interpreted(&job.job, file)), reported_bytes_max }
    }
}

/// Facts about the run of a script.
#[derive(Debug)]
pub(crate) struct KnownRun {
    pub(crate) terms: Terms,
    pub(crate) script: Sha256Digest,
}

impl KnownRun {
    pub(crate) fn new(job: &RunJob, elf: &Sealed, has_library: bool) -> Self {
        let terms = Terms::new(job.tier, has_library, job.cycles_max, job.sample_cycles);
        Self { terms, script: elf.digest() }
    }
}

/// Facts about a verification.
#[derive(Debug)]
pub(crate) struct KnownVerification {
    pub(crate) terms: Terms,
    /// `None` if the supervisor has not parsed the transaction.
    pub(crate) groups: Option<Arc<[KnownGroup]>>,
    /// The only group to run, if there is one.
    pub(crate) only: Option<(GroupKind, CellName)>,
    /// Number of libraries.
    pub(crate) libraries: usize,
    /// Digests of their sources.
    pub(crate) scripts: Arc<[Sha256Digest]>,
    pub(crate) may_be_hot: bool,
}

impl KnownVerification {
    pub(crate) fn new(job: &VerifyJob, libraries: usize) -> Self {
        Self {
            terms: Terms::new(job.tier, libraries > 0, job.cycles_max, job.sample_cycles),
            groups: job.groups.clone(),
            only: job.group,
            libraries,
            scripts: job.scripts.clone(),
            may_be_hot: job.tier != Tier::Interpreter,
        }
    }
}

/// Facts about runs and verifications alike.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) cycles_max: u64,
    /// Whether it has native code that may run.
    pub(crate) may_be_native: bool,
    pub(crate) is_sampled: bool,
}

impl Terms {
    pub(crate) fn new(tier: Tier, has_library: bool, cycles_max: u64, sample_cycles: u64) -> Self {
        let may_be_native = has_library && tier != Tier::Interpreter;
        Self { cycles_max, may_be_native, is_sampled: sample_cycles > 0 }
    }

    /// Maximum cycles of a script, however it ended.
    fn cycles_end(self) -> u64 {
        self.cycles_max.saturating_add(CYCLES_BEYOND_MAX)
    }
}

/// The worker's earlier reports on the job.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    pub(crate) runs: usize,
    /// Time that these reports claim.
    time: Duration,
    output_bytes: u64,
}

impl Progress {
    /// Adds a report.
    pub(crate) fn and<R: Judged>(mut self, report: &R) -> Self {
        self.runs += 1;
        self.time = self.time.saturating_add(report.time());
        self.output_bytes = self.output_bytes.saturating_add(report.output_bytes());
        self
    }
}

/// Checks of a report.
pub(crate) trait Judged {
    /// Whether everything succeeded, so that the worker may do another job.
    fn is_clean(&self) -> bool;

    /// Whether it has more debug output than `bytes_max`.
    fn talks_too_much(&self, _bytes_max: u64) -> bool {
        false
    }

    /// Checks whether it can be a report on this job, after earlier reports.
    fn check(&self, known: &Known, before: &Progress) -> Checked;

    /// The time that it claims.
    fn time(&self) -> Duration;

    /// Charge for its debug output in a batch.
    fn output_bytes(&self) -> u64 {
        0
    }

    /// Checks whether the worker can have spent that much time in `elapsed`.
    fn check_time(&self, before: &Progress, elapsed: Duration) -> Checked {
        let time = before.time.saturating_add(self.time());
        ensure(time <= elapsed + CLOCK_TOLERANCE, "more time than has passed")
    }
}

impl Judged for RunWorkerReport {
    fn is_clean(&self) -> bool {
        match self {
            Self::Run(report) => report.is_clean(),
            Self::Batch(_) => true,
            Self::Verify(report) => report.is_clean(),
            Self::Profile(_) | Self::Diagnose(_) => false,
        }
    }

    fn talks_too_much(&self, bytes_max: u64) -> bool {
        Self::talks_too_much(self, bytes_max)
    }

    fn check(&self, known: &Known, before: &Progress) -> Checked {
        match (known, self) {
            (Known::Run(known), Self::Run(report)) => runs::check(report, known),
            (Known::Batch { each, inputs, output_bytes_max }, Self::Run(report)) => {
                ensure(before.runs < *inputs, "more runs than the batch has")?;
                let may_write = before.output_bytes < *output_bytes_max;
                ensure(may_write || report.debug.is_empty(), "more debug output than the batch may have")?;
                runs::check(report, each)
            }
            (Known::Batch { .. }, Self::Batch(BatchReport { runs })) => {
                ensure(*runs == before.runs as u64, "another number of runs than it reported")
            }
            (Known::Verify(known), Self::Verify(report)) => groups::check(report, known),
            (Known::Profile(known), Self::Profile(report)) => profiles::check_profile(report, known),
            (Known::Diagnosis { job, reported_bytes_max }, Self::Diagnose(report)) => {
                profiles::check_diagnosis(report, job, *reported_bytes_max)
            }
            _ => Err("an answer to another kind of job"),
        }
    }

    fn time(&self) -> Duration {
        match self {
            Self::Run(report) => runs::time(report),
            Self::Verify(report) => groups::time(report),
            Self::Profile(report) => profiles::time(report),
            Self::Diagnose(report) => profiles::time(&report.report),
            Self::Batch(_) => Duration::ZERO,
        }
    }

    fn output_bytes(&self) -> u64 {
        match self {
            Self::Run(report) => batch_output_bytes(report),
            _ => 0,
        }
    }
}

impl Judged for CompileReport {
    fn is_clean(&self) -> bool {
        false
    }

    fn check(&self, known: &Known, _before: &Progress) -> Checked {
        let Known::Compile { task, limits } = known else { return Err("an answer to another kind of job") };
        compiles::check(self, *task, limits)
    }

    fn time(&self) -> Duration {
        match self {
            Self::Done(summary) => Duration::from_millis(summary.compile_ms),
            Self::Refused { .. } | Self::Failed { .. } => Duration::ZERO,
        }
    }
}

fn ensure(holds: bool, otherwise: &'static str) -> Checked {
    if holds { Ok(()) } else { Err(otherwise) }
}

fn micros(first: u64, second: u64) -> Duration {
    Duration::from_micros(first).saturating_add(Duration::from_micros(second))
}
/// Charge for a run's debug output in its batch; includes the overhead of each line in an answer and in
/// memory.
#[must_use]
pub fn batch_output_bytes(report: &RunReport) -> u64 {
    report.debug.bytes().saturating_add(report.debug.count() as u64 * BATCH_LINE_BYTES)
}
