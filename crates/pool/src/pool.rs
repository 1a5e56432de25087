//! The supervisor's view: start a pool, run and compile in it, see how it does.

use std::{
    fs::File,
    os::fd::AsFd,
    path::{Path, PathBuf},
    sync::{Arc, mpsc::sync_channel},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use antares_abi::HINTS_MAX;
use antares_sandbox::{Layer, LayerStatus, Speculation};

use crate::{
    PoolError, REPORT_BYTES_MAX, Renewal, Reuse, ReusePolicy, Sealed, Until,
    begun::Begun,
    control_group::{GroupConfig, Groups},
    errand::Errand,
    inspect::inspect,
    job::{
        BatchJob, BatchReport, CompileJob, CompileReport, DEBUG_BYTES_LEAST, HOT_BYTES_MAX, HOT_PROGRAMS_MAX,
        PROFILE_BYTES_MAX, ProfileJob, ProfileReport, RunJob, RunReport, RunWorkerJob, RunWorkerReport,
        SAMPLES_BYTES_MAX, VerifyJob, VerifyReport,
    },
    ledger::{Count, Ledger},
    output::take_output,
    reuse::Kind,
    sealed,
    supervisor::supervise,
    terms::Terms,
};

/// Children alive at once, at most, whatever the configuration says.
pub const WORKERS_MAX: usize = 1024;
/// Bytes of a report beside its debug output: the lengths of 65,536 lines, texts of errors, figures.
const REPORT_OVERHEAD_BYTES: usize = 512 << 10;

/// Bytes of the reports of a transaction's groups, beside their debug output: at most 49,152 groups, and each cell's
/// place in its groups.
const GROUPS_BYTES_MAX: u64 = 8 << 20;

/// Bytes of the programs that a verification reports as hot, with their hints: a number takes five at most.
const HOT_BYTES: u64 = (HOT_PROGRAMS_MAX * (HOT_BYTES_MAX + 5 * HINTS_MAX + 64)) as u64;

/// Bytes of the report of one run of a batch beside its debug output: the detail of an error is the longest part.
const RUN_BYTES_MAX: usize = 8 << 10;

/// What a line of debug output counts in a batch beside its bytes and its end.
const BATCH_LINE_BYTES: u64 = 31;

/// What a pool is made of.
#[derive(Clone, Debug)]
pub struct PoolConfig {
    /// The worker binary.
    pub worker: PathBuf,
    /// Children alive at once.
    pub workers_max: usize,
    /// Required layers whose absence is accepted.
    pub allow_degraded: Vec<Layer>,
    /// How workers are used again.
    pub reuse: Reuse,
    /// How long a zygote makes workers.
    pub renewal: Renewal,
    /// What workers ask of the kernel against what the processor does ahead of time.
    pub speculation: Speculation,
    /// Where each worker gets a control group of its own, if it does.
    pub group: Option<GroupConfig>,
}

impl PoolConfig {
    /// A pool of `workers_max` times `worker` that accepts no missing layer, uses workers again as [`Reuse::default`] says and renews
    /// its zygote as [`Renewal::default`] does.
    #[must_use]
    pub fn new(worker: PathBuf, workers_max: usize) -> Self {
        let (reuse, renewal, speculation) = Default::default();
        Self { worker, workers_max, allow_degraded: Vec::new(), reuse, renewal, speculation, group: None }
    }
}

/// How a job ended, as far as the supervisor can tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict<T> {
    /// The worker answered.
    Done(T),
    /// The wall-clock deadline passed; the worker was killed.
    DeadlineExceeded,
    /// The worker made a system call that its role does not allow; the kernel killed it.
    SandboxViolation {
        /// What is known about it, for people.
        detail: String,
    },
    /// The worker died, or its answer made no sense.
    WorkerLost {
        /// What is known about it, for people.
        detail: String,
    },
}

impl<T> Verdict<T> {
    /// The verdict with another answer.
    pub fn map<U>(self, answer: impl FnOnce(T) -> U) -> Verdict<U> {
        match self {
            Self::Done(report) => Verdict::Done(answer(report)),
            Self::DeadlineExceeded => Verdict::DeadlineExceeded,
            Self::SandboxViolation { detail } => Verdict::SandboxViolation { detail },
            Self::WorkerLost { detail } => Verdict::WorkerLost { detail },
        }
    }

    /// What `next` makes of the answer, if there is one.
    ///
    /// # Errors
    /// Those of `next`.
    pub fn and_then<U, E>(self, next: impl FnOnce(T) -> Result<Verdict<U>, E>) -> Result<Verdict<U>, E> {
        match self {
            Self::Done(report) => next(report),
            Self::DeadlineExceeded => Ok(Verdict::DeadlineExceeded),
            Self::SandboxViolation { detail } => Ok(Verdict::SandboxViolation { detail }),
            Self::WorkerLost { detail } => Ok(Verdict::WorkerLost { detail }),
        }
    }
}

/// What a compile gave.
#[derive(Debug)]
pub struct Compiled {
    /// The worker's answer.
    pub report: CompileReport,
    /// The output, if the report is [`CompileReport::Done`]: sealed, and its digest is the report's. A library has passed
    /// [`verify_library`](crate::verify_library); whoever has it from here need not look again.
    pub output: Option<Sealed>,
}

/// How a batch ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchEnd {
    /// Reports of the runs that came to an end, in the order of the inputs.
    pub reports: Vec<RunReport>,
    /// How the batch as a whole ended. If the worker did not answer, the first input without a report is what it ran last.
    pub verdict: Verdict<BatchReport>,
}

/// How a pool does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// Children with a job.
    pub busy: usize,
    /// Children that wait for another job of their kind.
    pub resting: usize,
    /// Children with a job at once, at most.
    pub workers_max: usize,
    /// Children started since the pool was.
    pub spawned_total: u64,
    /// Jobs done by children that had done one before.
    pub reused_total: u64,
    /// Children that died without an answer.
    pub lost_total: u64,
    /// Children killed for a forbidden system call.
    pub violations_total: u64,
    /// Of these, children whose native code touched memory far from all that it may touch: our generator's mistake, or worse.
    pub wild_faults_total: u64,
    /// Libraries whose machine code was refused.
    pub code_refused_total: u64,
    /// Children killed because their deadline passed.
    pub deadline_total: u64,
    /// Workers that [`Pool::inspect`] has looked at.
    pub inspected_total: u64,
    /// Of these, workers whose fence was not whole.
    pub unfenced_total: u64,
    /// Times the zygote was lost and replaced.
    pub zygote_restarts_total: u64,
    /// Times the zygote was replaced because it had made enough workers, or was old.
    pub zygote_renewals_total: u64,
    /// Process id of the zygote; none while it is being replaced.
    pub zygote_pid: Option<u32>,
}

/// A zygote and the children it forks, for the jobs of one tenant. Cheap to clone; the last clone that is dropped ends the
/// zygote.
#[derive(Clone, Debug)]
pub struct Pool {
    owner: Arc<Owner>,
    tenant: Arc<str>,
}

#[derive(Debug)]
struct Owner {
    ledger: Arc<Ledger>,
    layers: Vec<LayerStatus>,
    supervisor: Option<JoinHandle<()>>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        // Wakes the supervisor's thread, which then ends the zygotes.
        self.ledger.close();
        if let Some(supervisor) = self.supervisor.take() {
            // It has nothing to say.
            let _ = supervisor.join();
        }
    }
}

impl Pool {
    /// Executes the worker binary as a zygote and waits for its self-test.
    ///
    /// # Errors
    /// The binary does not start or does not get ready, or a required layer of the sandbox is missing.
    pub fn start(config: PoolConfig) -> Result<Self, PoolError> {
        if !(1..=WORKERS_MAX).contains(&config.workers_max) {
            return Err(PoolError::WorkersMax { found: config.workers_max, most: WORKERS_MAX });
        }
        let (groups, group) = Groups::of(config.group.as_ref());
        let ledger = Ledger::new(config.workers_max, config.reuse, groups);
        let ledger = ledger.map_err(PoolError::io("make a bell"))?;
        let ledger = Arc::new(ledger);
        let (started, starting) = sync_channel(1);
        let supervised = Arc::clone(&ledger);
        let supervisor = std::thread::Builder::new()
            .name("pool".to_owned())
            .spawn(move || supervise(&config, &supervised, &started))
            .map_err(PoolError::io("start a thread"))?;
        let mut layers = starting.recv().map_err(|_| PoolError::ZygoteLost)??;
        layers.insert(0, group);
        let owner = Arc::new(Owner { ledger, layers, supervisor: Some(supervisor) });
        Ok(Self { owner, tenant: Arc::from("") })
    }

    /// The same pool for the jobs of `tenant`: none of them shares a worker with another tenant's.
    #[must_use]
    pub fn of_tenant(&self, tenant: &str) -> Self {
        Self { owner: Arc::clone(&self.owner), tenant: Arc::from(tenant) }
    }

    /// The errand of a job that may share a worker with others of its kind.
    fn errand<'a>(
        &'a self,
        elf: &'a Sealed,
        library: Option<&'a Sealed>,
        debug_bytes: u64,
        reply_bytes_max: usize,
        until: Until,
    ) -> Errand<'a> {
        let kind = || Kind {
            tenant: Arc::clone(&self.tenant),
            script: elf.digest(),
            library: library.map(Sealed::digest),
        };
        let ledger = Arc::clone(&self.owner.ledger);
        let kind = (ledger.reuse().policy == ReusePolicy::PerArtifact).then(kind);
        let debug_bytes = (debug_bytes, debug_bytes.max(DEBUG_BYTES_LEAST));
        Errand {
            elf: elf.as_fd(),
            extras: library.map(AsFd::as_fd).into_iter().collect(),
            terms: Terms { ledger, compiles: false, reply_bytes_max, until, kind, debug_bytes },
        }
    }

    /// The terms of a job that has a child to itself.
    fn alone(&self, compiles: bool, debug_bytes: u64, reply_bytes_max: usize, until: Until) -> Terms {
        let (ledger, debug_bytes) = (Arc::clone(&self.owner.ledger), (debug_bytes, debug_bytes));
        Terms { ledger, compiles, reply_bytes_max, until, kind: None, debug_bytes }
    }

    /// Begins `job` in a child that has done such a job before, if one waits and a slot is free, and does not wait for the
    /// answer. Never blocks.
    ///
    /// # Errors
    /// [`PoolError::JobTooLarge`], and [`PoolError::Cancelled`] when the job was taken back.
    pub fn begin_run(
        &self,
        job: &RunJob,
        elf: &Sealed,
        library: Option<&Sealed>,
        until: impl Into<Until>,
    ) -> Result<Option<Begun>, PoolError> {
        let reply_bytes_max =
            report_bytes_max(job.debug_bytes_max.saturating_add(samples_bytes(job.sample_cycles, 1)));
        let errand = self.errand(elf, library, job.debug_bytes_max, reply_bytes_max, until.into());
        errand.begin(&RunWorkerJob::<_, &VerifyJob, &BatchJob>::Run(job))
    }

    /// Runs `job` on the script `elf` in a child, fresh or of its kind ([`Reuse`]), with native code if `library` is given.
    /// Blocks `until` a deadline at the latest, or until the job is taken back (and then for as long as the kernel needs to
    /// end the child).
    ///
    /// # Errors
    /// [`PoolError::Busy`] and [`PoolError::ZygoteLost`] when no child could be had before the deadline;
    /// [`PoolError::Cancelled`] when the job was taken back.
    pub fn run(
        &self,
        job: &RunJob,
        elf: &Sealed,
        library: Option<&Sealed>,
        until: impl Into<Until>,
    ) -> Result<Verdict<RunReport>, PoolError> {
        let reply_bytes_max =
            report_bytes_max(job.debug_bytes_max.saturating_add(samples_bytes(job.sample_cycles, 1)));
        let errand = self.errand(elf, library, job.debug_bytes_max, reply_bytes_max, until.into());
        let verdict = errand.run(&RunWorkerJob::<_, &VerifyJob, &BatchJob>::Run(job))?;
        self.owner.ledger.expect_answer(verdict, RunWorkerReport::into_run)
    }

    /// Verifies `transaction` in a fresh child, with the native code of `files`: as many libraries as the job lists, and the
    /// ELFs of those that are [`LibraryOf::Beside`](crate::job::LibraryOf::Beside); at most 64 together. Blocks as
    /// [`Pool::run`] does.
    ///
    /// # Errors
    /// As [`Pool::run`], and [`PoolError::TooManyFiles`].
    pub fn verify(
        &self,
        job: &VerifyJob,
        transaction: &Sealed,
        files: &[&Sealed],
        until: impl Into<Until>,
    ) -> Result<Verdict<VerifyReport>, PoolError> {
        let beside = GROUPS_BYTES_MAX + HOT_BYTES + samples_bytes(job.sample_cycles, 1);
        let debug_bytes = job.debug_bytes_max.saturating_add(beside);
        let errand = Errand {
            elf: transaction.as_fd(),
            extras: files.iter().map(|file| file.as_fd()).collect(),
            terms: self.alone(false, job.debug_bytes_max, report_bytes_max(debug_bytes), until.into()),
        };
        let verdict = errand.run(&RunWorkerJob::<&RunJob, _, &BatchJob>::Verify(job))?;
        self.owner.ledger.expect_answer(verdict, |report| match report {
            RunWorkerReport::Verify(report) => Some(report),
            _ => None,
        })
    }

    /// Runs the script or verifies the transaction in `file` in a fresh child, in the interpreter, and tells where its cycles
    /// went. Blocks as [`Pool::run`] does.
    ///
    /// # Errors
    /// As [`Pool::run`].
    pub fn profile(
        &self,
        job: ProfileJob,
        file: &Sealed,
        until: impl Into<Until>,
    ) -> Result<Verdict<ProfileReport>, PoolError> {
        let (debug_bytes, beside) = match &job {
            ProfileJob::Run(job) => (job.debug_bytes_max, 0),
            ProfileJob::Verify(job) => (job.debug_bytes_max, GROUPS_BYTES_MAX + HOT_BYTES),
        };
        let report_bytes = debug_bytes.saturating_add(beside + PROFILE_BYTES_MAX as u64);
        let terms = self.alone(false, debug_bytes, report_bytes_max(report_bytes), until.into());
        let errand = Errand { elf: file.as_fd(), extras: Vec::new(), terms };
        let verdict = errand.run(&RunWorkerJob::<&RunJob, &VerifyJob, &BatchJob>::Profile(job))?;
        self.owner.ledger.expect_answer(verdict, |report| match report {
            RunWorkerReport::Profile(report) if report.profile.len() <= PROFILE_BYTES_MAX => Some(report),
            _ => None,
        })
    }

    /// Runs `elf` with each input of `job` in one child, one after another. Blocks as [`Pool::run`] does.
    ///
    /// # Errors
    /// As [`Pool::run`].
    pub fn batch(
        &self,
        job: &BatchJob,
        elf: &Sealed,
        library: Option<&Sealed>,
        until: impl Into<Until>,
    ) -> Result<BatchEnd, PoolError> {
        let runs_bytes = RUN_BYTES_MAX.saturating_mul(job.inputs.len());
        let debug_bytes = report_bytes_max(job.debug_bytes_max.saturating_add(job.output_bytes_max));
        // A worker stops to tell samples when it has told as many as fit.
        let samples = usize::try_from(samples_bytes(job.sample_cycles, 2)).unwrap_or(0);
        let reply_bytes_max = debug_bytes.saturating_add(runs_bytes).saturating_add(samples);
        let errand = self.errand(elf, library, job.debug_bytes_max, reply_bytes_max, until.into());
        let mut reports = Vec::new();
        let mut is_understood = true;
        let asked = RunWorkerJob::<&RunJob, &VerifyJob, _>::Batch(job);
        let mut output_bytes = 0_u64;
        let verdict = errand.run_in_parts(&asked, job.inputs.len(), |part| match part {
            // No run is begun when those before it have written as much as they may.
            RunWorkerReport::Run(report) if output_bytes < job.output_bytes_max.max(1) => {
                output_bytes = output_bytes.saturating_add(batch_output_bytes(&report));
                reports.push(report);
            }
            _ => is_understood = false,
        })?;
        let verdict = self.owner.ledger.expect_answer(verdict, |report| match report {
            RunWorkerReport::Batch(report) if is_understood && report.runs == reports.len() as u64 => {
                Some(report)
            }
            _ => None,
        })?;
        Ok(BatchEnd { reports, verdict })
    }

    /// Compiles `elf` in a fresh child; the code of a library is then checked in another one. Blocks as [`Pool::run`] does, and
    /// not longer than the job's own limit, and that of the check.
    ///
    /// # Errors
    /// As [`Pool::run`].
    pub fn compile(
        &self,
        job: &CompileJob,
        elf: &Sealed,
        until: impl Into<Until>,
    ) -> Result<Verdict<Compiled>, PoolError> {
        let until = until.into();
        let made = self.make(job, elf, until.clone())?;
        made.and_then(|compiled| self.check_code(job, compiled, until))
    }

    /// [`Pool::compile`] without a look at the code.
    pub(crate) fn make(
        &self,
        job: &CompileJob,
        elf: &Sealed,
        mut until: Until,
    ) -> Result<Verdict<Compiled>, PoolError> {
        let wall = Duration::from_millis(job.limits.wall_ms_max);
        if let Some(own) = Instant::now().checked_add(wall) {
            until.deadline = until.deadline.min(own);
        }
        let output =
            File::from(sealed::create("antares-output").map_err(PoolError::io("make an output file"))?);
        let errand = Errand {
            elf: elf.as_fd(),
            extras: vec![output.as_fd()],
            terms: self.alone(true, 0, REPORT_OVERHEAD_BYTES, until),
        };
        errand.run(job)?.and_then(|report: CompileReport| {
            let verdict = take_output(job.task, &report, output)?;
            if let Verdict::WorkerLost { .. } = verdict {
                self.owner.ledger.count(Count::Lost);
            }
            Ok::<_, PoolError>(verdict.map(|output| Compiled { report, output }))
        })
    }

    pub(crate) fn count(&self, count: Count) {
        self.owner.ledger.count(count);
    }

    /// How the pool does, now.
    #[must_use]
    pub fn stats(&self) -> PoolStats {
        self.owner.ledger.stats()
    }

    /// Looks at some workers from outside, as the kernel sees them, and counts those whose fence is not whole. A few file reads.
    pub fn inspect(&self) {
        let Some(zygote) = self.stats().zygote_pid else { return };
        let seen = inspect(zygote);
        for fault in &seen.unfenced {
            tracing::error!(fault, "a worker without a whole fence");
        }
        self.owner.ledger.count_inspected(seen.looked_at, seen.unfenced.len() as u64);
    }

    /// What the start-up self-test said.
    #[must_use]
    pub fn layers(&self) -> &[LayerStatus] {
        &self.owner.layers
    }
}

/// Bytes of the sampled profiles of `runs`.
fn samples_bytes(sample_cycles: u64, runs: u64) -> u64 {
    if sample_cycles == 0 { 0 } else { runs.saturating_mul(SAMPLES_BYTES_MAX as u64) }
}

/// What the debug output of a run counts among that of its batch: for each line what it takes in an answer and in memory too.
#[must_use]
pub fn batch_output_bytes(report: &RunReport) -> u64 {
    report.debug.bytes().saturating_add(report.debug.count() as u64 * BATCH_LINE_BYTES)
}

fn report_bytes_max(debug_bytes_max: u64) -> usize {
    let debug = usize::try_from(debug_bytes_max).unwrap_or(usize::MAX);
    debug.saturating_add(REPORT_OVERHEAD_BYTES).min(REPORT_BYTES_MAX)
}

/// Path of the worker binary `name`: in `$ANTARES_WORKER_DIR`, or beside this executable, or one folder above it.
///
/// # Errors
/// There is none, or the path of this executable cannot be read.
pub fn worker_path(name: &str) -> Result<PathBuf, PoolError> {
    let mut looked = Vec::new();
    if let Some(folder) = std::env::var_os("ANTARES_WORKER_DIR") {
        looked.push(Path::new(&folder).join(name));
    }
    let executable = std::env::current_exe().map_err(PoolError::io("read the path of this executable"))?;
    looked.extend(executable.ancestors().skip(1).take(2).map(|folder| folder.join(name)));
    match looked.iter().find(|path| path.is_file()) {
        Some(path) => Ok(path.clone()),
        None => Err(PoolError::WorkerNotFound { name: name.to_owned(), looked }),
    }
}
