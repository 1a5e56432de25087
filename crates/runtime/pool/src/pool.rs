//! The supervisor's interface: starts a pool, runs and compiles in it, and reports its state.

use std::{
    fs::File,
    os::fd::{AsFd, BorrowedFd},
    path::{Path, PathBuf},
    sync::{Arc, mpsc::sync_channel},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use antares_abi::COMPILE_WALL_TIMES;
use antares_sandbox::LayerStatus;

use crate::{
    PoolConfig, PoolError, PoolStats, Sealed, StartedRun, Until, Verdict,
    call::{Call, Job},
    checks::{Known, KnownRun, KnownVerification},
    control_group::Groups,
    inspect::inspect,
    job::{
        BatchJob, BatchReport, CompileJob, CompileReport, DiagnosisJob, DiagnosisReport, LibraryOf,
        ProfileJob, ProfileReport, RunJob, RunReport, RunWorkerReport, VerifyFiles, VerifyJob, VerifyReport,
    },
    ledger::{Count, Ledger},
    output::take_output,
    reaper,
    reuse::{Kind, Work},
    sealed,
    supervisor::supervise,
};

/// Maximum concurrent children in any configuration.
pub const WORKERS_MAX: usize = 1024;
/// A pool without a zygote for this long does not recover by itself: a lost zygote is normally replaced within
/// seconds.
const DESERTED_AFTER: Duration = Duration::from_secs(300);

/// The result of a compile.
#[derive(Debug)]
pub struct Compiled {
    /// The worker's answer.
    pub report: CompileReport,
    /// The output, if the report is [`CompileReport::Done`]: sealed, and its digest is the report's. A
    /// library has passed [`verify_library`](crate::verify_library), so it needs no further check.
    pub output: Option<Sealed>,
}

/// The result of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchEnd {
    /// Reports of the completed runs, in the order of the inputs.
    pub reports: Vec<RunReport>,
    /// The result of the whole batch. If the worker did not answer, it last ran the first input without a
    /// report.
    pub verdict: Verdict<BatchReport>,
}

/// A zygote and its children, for the jobs of one tenant. Cheap to clone; dropping the last clone ends the
/// zygote.
#[derive(Clone, Debug)]
pub struct Pool {
    owner: Arc<Owner>,
    tenant: Arc<str>,
    /// Whether each job gets a new worker.
    is_fresh: bool,
}

#[derive(Debug)]
struct Owner {
    ledger: Arc<Ledger>,
    /// Placeholder for a transaction that is inside of its job.
    nothing: Sealed,
    layers: Vec<LayerStatus>,
    supervisor: Option<JoinHandle<()>>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        // Wakes the supervisor's thread, which then ends the zygotes.
        self.ledger.close();
        if let Some(supervisor) = self.supervisor.take() {
            // The thread has no result.
            let _ = supervisor.join();
        }
    }
}

impl Pool {
    /// Executes the worker binary as a zygote and waits for its self-test.
    ///
    /// # Errors
    /// The binary does not start or does not become ready, or a required layer of the sandbox is missing.
    pub fn start(config: PoolConfig) -> Result<Self, PoolError> {
        if !(1..=WORKERS_MAX).contains(&config.workers_max) {
            return Err(PoolError::WorkersMax { found: config.workers_max, most: WORKERS_MAX });
        }
        reaper::begin().map_err(PoolError::io("start a thread"))?;
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
        let nothing = Sealed::new("antares-nothing", &[]).map_err(PoolError::io("make a memory file"))?;
        let owner = Arc::new(Owner { ledger, nothing, layers, supervisor: Some(supervisor) });
        Ok(Self { owner, tenant: Arc::from(""), is_fresh: false })
    }

    /// The same pool for the jobs of `tenant`, which do not share workers with other tenants.
    #[must_use]
    pub fn of_tenant(&self, tenant: &str) -> Self {
        Self { owner: Arc::clone(&self.owner), tenant: Arc::from(tenant), is_fresh: self.is_fresh }
    }

    /// The same pool with a new worker for each job, for callers that do not trust reused workers.
    #[must_use]
    pub fn of_fresh_workers(&self) -> Self {
        Self { is_fresh: true, ..self.clone() }
    }

    /// The kind of jobs that may share a worker with one for `elf`, if any may.
    fn kind(&self, elf: &Sealed, library: Option<&Sealed>) -> Option<Kind> {
        self.kind_of(|| Work::Run { script: elf.digest(), library: library.map(Sealed::digest) })
    }

    fn kind_of(&self, work: impl FnOnce() -> Work) -> Option<Kind> {
        let kind = || Kind { tenant: Arc::clone(&self.tenant), work: work() };
        (self.owner.ledger.reuse().idle_max > 0 && !self.is_fresh).then(kind)
    }

    /// A verification; sets the job's library digests.
    fn verification(
        &self,
        job: &VerifyJob,
        files: &VerifyFiles<'_>,
        until: Until,
    ) -> Result<Call, PoolError> {
        // An idle worker has closed its descriptors, so it cannot receive a transaction in a file.
        let may_share = !job.is_alone && files.document.is_none();
        let library_digests: Vec<_> = files.libraries.iter().map(|library| library.digest()).collect();
        let mut beside = files.beside.iter().map(|file| file.digest());
        let elf = |of: &LibraryOf| matches!(of, LibraryOf::Beside).then(|| beside.next()).flatten();
        let elfs = job.libraries.iter().map(elf);
        let libraries = library_digests.iter().copied().zip(elfs).collect();
        let cells = files.cells.iter().map(|file| file.digest()).collect();
        let work = Work::Verify { tier: job.tier, libraries, cells };
        let kind = may_share.then(|| self.kind_of(|| work));
        let job = VerifyJob { library_digests, ..job.clone() };
        let known = Known::Verify(KnownVerification::new(&job, files.libraries.len()));
        Call::new(&job, known, &self.owner.ledger, kind.flatten(), until)
    }

    /// Runs `job` with the facts `known` in a worker: an idle one of this `kind`, or a new one. `take` receives
    /// the parts of the answer.
    fn call<J: Job>(
        &self,
        (job, known): (&J, Known),
        files: &[BorrowedFd<'_>],
        kind: Option<Kind>,
        until: Until,
        take: impl FnMut(J::Reply),
    ) -> Result<Verdict<J::Report>, PoolError> {
        let verdict = Call::new(job, known, &self.owner.ledger, kind, until)?.run(files, take)?;
        Ok(verdict.part(|reply| job.report(reply)))
    }

    /// Passes `job` to an idle child of its kind, if there is one and a slot is free, without waiting for the
    /// answer. Never blocks.
    ///
    /// # Errors
    /// [`PoolError::JobTooLarge`], and [`PoolError::Cancelled`] if the job was cancelled.
    pub fn begin_run(
        &self,
        job: &RunJob,
        elf: &Sealed,
        library: Option<&Sealed>,
        until: impl Into<Until>,
    ) -> Result<Option<StartedRun<RunReport>>, PoolError> {
        let known = Known::Run(KnownRun::new(job, elf, library.is_some()));
        Call::new(job, known, &self.owner.ledger, self.kind(elf, library), until.into())?.begin()
    }

    /// Runs `job` on the script `elf` in a child, new or of its kind ([`Reuse`](crate::Reuse)), with native
    /// code if `library` is given. Blocks at most `until` a deadline, or until the job is cancelled, plus the
    /// time that the kernel needs to end the child.
    ///
    /// # Errors
    /// [`PoolError::Busy`] if no child was available before the deadline; [`PoolError::ZygoteLost`] also if
    /// there is no zygote for ten seconds; [`PoolError::Cancelled`] if the job was cancelled.
    pub fn run(
        &self,
        job: &RunJob,
        elf: &Sealed,
        library: Option<&Sealed>,
        until: impl Into<Until>,
    ) -> Result<Verdict<RunReport>, PoolError> {
        let known = Known::Run(KnownRun::new(job, elf, library.is_some()));
        self.call((job, known), &script(elf, library), self.kind(elf, library), until.into(), drop)
    }

    /// Passes a verification to an idle child that has done one and has all of `files`, like
    /// [`Pool::begin_run`].
    ///
    /// # Errors
    /// As [`Pool::begin_run`].
    pub fn begin_verify(
        &self,
        job: &VerifyJob,
        files: &VerifyFiles<'_>,
        until: impl Into<Until>,
    ) -> Result<Option<StartedRun<VerifyReport>>, PoolError> {
        self.verification(job, files, until.into())?.begin()
    }

    /// Verifies a transaction with the native code and the cells of `files`, at most 64 together. Uses a child
    /// that has all of them from an earlier job of the same tenant, or a new one ([`Reuse`](crate::Reuse)).
    /// Blocks like [`Pool::run`].
    ///
    /// # Errors
    /// As [`Pool::run`], and [`PoolError::TooManyFiles`].
    pub fn verify(
        &self,
        job: &VerifyJob,
        files: &VerifyFiles<'_>,
        until: impl Into<Until>,
    ) -> Result<Verdict<VerifyReport>, PoolError> {
        let document = files.document.unwrap_or(&self.owner.nothing);
        let shared = [files.libraries, files.beside, files.cells].concat();
        let fds: Vec<_> = std::iter::once(document).chain(shared).map(AsFd::as_fd).collect();
        let verdict = self.verification(job, files, until.into())?.run(&fds, drop)?;
        Ok(verdict.part(|reply| job.report(reply)))
    }

    /// Runs the script or verifies the transaction in `file` in a new child, in the interpreter, and profiles
    /// its cycles. `cells` are those that the job of a transaction lists. Blocks like [`Pool::run`].
    ///
    /// # Errors
    /// As [`Pool::run`], and [`PoolError::TooManyFiles`].
    pub fn profile(
        &self,
        job: &ProfileJob,
        file: &Sealed,
        cells: &[&Sealed],
        until: impl Into<Until>,
    ) -> Result<Verdict<ProfileReport>, PoolError> {
        let files: Vec<_> = std::iter::once(file).chain(cells.iter().copied()).map(AsFd::as_fd).collect();
        let known = Known::Profile(Box::new(Known::interpreted(job, file)));
        self.call((job, known), &files, None, until.into(), drop)
    }

    /// Repeats a failed run or verification in a new child, and retains evidence of its end. Blocks like
    /// [`Pool::run`].
    ///
    /// # Errors
    /// As [`Pool::run`].
    pub fn diagnose(
        &self,
        job: &DiagnosisJob,
        file: &Sealed,
        until: impl Into<Until>,
    ) -> Result<Verdict<DiagnosisReport>, PoolError> {
        self.call((job, Known::diagnosis(job, file)), &[file.as_fd()], None, until.into(), drop)
    }

    /// Repeats a failed verification in a new child, with the transaction and the cells of `files`, and retains
    /// evidence of its end. Blocks like [`Pool::run`].
    ///
    /// # Errors
    /// As [`Pool::verify`].
    pub fn diagnose_transaction(
        &self,
        job: &DiagnosisJob,
        files: &VerifyFiles<'_>,
        until: impl Into<Until>,
    ) -> Result<Verdict<DiagnosisReport>, PoolError> {
        let document = files.document.unwrap_or(&self.owner.nothing);
        let fds: Vec<_> =
            std::iter::once(document).chain(files.cells.iter().copied()).map(AsFd::as_fd).collect();
        let known = Known::diagnosis(job, document);
        self.call((job, known), &fds, None, until.into(), drop)
    }

    /// Runs `elf` with each input of `job` in one child, sequentially. Blocks like [`Pool::run`].
    /// # Errors
    /// As [`Pool::run`].
    pub fn batch(
        &self,
        job: &BatchJob,
        elf: &Sealed,
        library: Option<&Sealed>,
        until: impl Into<Until>,
    ) -> Result<BatchEnd, PoolError> {
        let mut reports = Vec::new();
        // Each part was checked to be a run.
        let take = |part: RunWorkerReport| reports.extend(part.into_run());
        let known = Known::batch(job, elf, library.is_some());
        let kind = self.kind(elf, library);
        let verdict = self.call((job, known), &script(elf, library), kind, until.into(), take)?;
        if let Verdict::FalseReport { .. } = verdict {
            reports.clear();
        }
        Ok(BatchEnd { reports, verdict })
    }

    /// Compiles `elf` in a new child, and checks the code of a library in another one. Blocks like
    /// [`Pool::run`], but at most for the job's own limit and that of the check.
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

    /// [`Pool::compile`] without the check of the code.
    pub(crate) fn make(
        &self,
        job: &CompileJob,
        elf: &Sealed,
        mut until: Until,
    ) -> Result<Verdict<Compiled>, PoolError> {
        let wall = Duration::from_millis(job.limits.wall_ms_max.saturating_mul(COMPILE_WALL_TIMES));
        if let Some(own) = Instant::now().checked_add(wall) {
            until.deadline = until.deadline.min(own);
        }
        let output =
            File::from(sealed::create("antares-output").map_err(PoolError::io("make an output file"))?);
        let known = Known::Compile { task: job.task, limits: job.limits };
        let files = [elf.as_fd(), output.as_fd()];
        self.call((job, known), &files, None, until, drop)?.and_then(|report| {
            let verdict = take_output(job.task, &report, output)?;
            if let Verdict::FalseReport { .. } = verdict {
                self.count(Count::FalseReport);
            }
            Ok::<_, PoolError>(verdict.map(|output| Compiled { report, output }))
        })
    }

    pub(crate) fn count(&self, count: Count) {
        self.owner.ledger.count(count);
    }

    /// The pool's current state.
    #[must_use]
    pub fn stats(&self) -> PoolStats {
        self.owner.ledger.stats()
    }

    /// Inspects some workers from outside through the kernel, and counts incomplete sandboxes. Costs a few
    /// file reads.
    pub fn inspect(&self) {
        let Some(zygote) = self.stats().zygote_pid else { return };
        let seen = inspect(zygote);
        for fault in &seen.unfenced {
            tracing::error!(fault, "a worker has an incomplete sandbox");
        }
        self.owner.ledger.count_inspected(seen.looked_at, seen.unfenced.len() as u64);
        // The zygote may have ended since the query.
        if seen.looked_at == 0 && self.stats().zygote_pid == Some(zygote) {
            self.owner.ledger.count(Count::Blind);
        }
    }

    /// Whether the pool will probably have no workers any more: the supervisor ended, or no zygote became ready
    /// for minutes.
    #[must_use]
    pub fn is_beyond_help(&self) -> bool {
        let has_ended = self.owner.supervisor.as_ref().is_none_or(JoinHandle::is_finished);
        has_ended || self.owner.ledger.is_deserted(DESERTED_AFTER)
    }

    /// The result of the self-test at startup.
    #[must_use]
    pub fn layers(&self) -> &[LayerStatus] {
        &self.owner.layers
    }
}

/// The files of a job on a script.
fn script<'a>(elf: &'a Sealed, library: Option<&'a Sealed>) -> Vec<BorrowedFd<'a>> {
    std::iter::once(elf).chain(library).map(AsFd::as_fd).collect()
}

/// Path of the worker binary `name`: in `$ANTARES_WORKER_DIR`, in this executable's folder, or in its parent
/// folder.
///
/// # Errors
/// It does not exist, or the path of this executable cannot be read.
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
