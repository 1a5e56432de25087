//! The supervisor's view: start a pool, run and compile in it, see how it does.

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

/// Children alive at once, at most, whatever the configuration says.
pub const WORKERS_MAX: usize = 1024;
/// A pool that is without a zygote for so long does not get one by itself: each that dies is replaced within
/// seconds.
const DESERTED_AFTER: Duration = Duration::from_secs(300);

/// What a compile gave.
#[derive(Debug)]
pub struct Compiled {
    /// The worker's answer.
    pub report: CompileReport,
    /// The output, if the report is [`CompileReport::Done`]: sealed, and its digest is the report's. A
    /// library has passed [`verify_library`](crate::verify_library); whoever has it from here need not look
    /// again.
    pub output: Option<Sealed>,
}

/// How a batch ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchEnd {
    /// Reports of the runs that came to an end, in the order of the inputs.
    pub reports: Vec<RunReport>,
    /// How the batch as a whole ended. If the worker did not answer, the first input without a report is what
    /// it ran last.
    pub verdict: Verdict<BatchReport>,
}

/// A zygote and the children it forks, for the jobs of one tenant. Cheap to clone; the last clone that is
/// dropped ends the zygote.
#[derive(Clone, Debug)]
pub struct Pool {
    owner: Arc<Owner>,
    tenant: Arc<str>,
    /// Whether each job gets a worker that has done nothing before.
    is_fresh: bool,
}

#[derive(Debug)]
struct Owner {
    ledger: Arc<Ledger>,
    /// In the place of a transaction that is in its job.
    nothing: Sealed,
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

    /// The same pool for the jobs of `tenant`: none of them shares a worker with another tenant's.
    #[must_use]
    pub fn of_tenant(&self, tenant: &str) -> Self {
        Self { owner: Arc::clone(&self.owner), tenant: Arc::from(tenant), is_fresh: self.is_fresh }
    }

    /// The same pool for jobs that each get a worker of their own: where one that was used before is not to
    /// be believed.
    #[must_use]
    pub fn of_fresh_workers(&self) -> Self {
        Self { is_fresh: true, ..self.clone() }
    }

    /// What jobs must have in common to share a worker with one for `elf`, if any may.
    fn kind(&self, elf: &Sealed, library: Option<&Sealed>) -> Option<Kind> {
        self.kind_of(|| Work::Run { script: elf.digest(), library: library.map(Sealed::digest) })
    }

    fn kind_of(&self, work: impl FnOnce() -> Work) -> Option<Kind> {
        let kind = || Kind { tenant: Arc::clone(&self.tenant), work: work() };
        (self.owner.ledger.reuse().idle_max > 0 && !self.is_fresh).then(kind)
    }

    /// A verification, with what its worker is told of its files.
    fn verification(
        &self,
        job: &VerifyJob,
        files: &VerifyFiles<'_>,
        until: Until,
    ) -> Result<Call, PoolError> {
        // The descriptors of a worker that waits are closed: a transaction in a file cannot reach it.
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

    /// Has `job`, of which this is `known`, done by a worker: one that rests after a job of this `kind`, or a
    /// fresh one. `take` gets the parts of the answer.
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

    /// Begins `job` in a child that has done such a job before, if one waits and a slot is free, and does not
    /// wait for the answer. Never blocks.
    ///
    /// # Errors
    /// [`PoolError::JobTooLarge`], and [`PoolError::Cancelled`] when the job was taken back.
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

    /// Runs `job` on the script `elf` in a child, fresh or of its kind ([`Reuse`](crate::Reuse)), with
    /// native code if `library` is given. Blocks `until` a deadline at the latest, or until the job is
    /// taken back (and then for as long as the kernel needs to end the child).
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
        let known = Known::Run(KnownRun::new(job, elf, library.is_some()));
        self.call((job, known), &script(elf, library), self.kind(elf, library), until.into(), drop)
    }

    /// Begins a verification in a child that has done one, has all of `files` and waits, as
    /// [`Pool::begin_run`] does.
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

    /// Verifies a transaction with the native code and the cells of `files`, at most 64 together: in a child
    /// that has all of them from another one of the same tenant, or a fresh one ([`Reuse`](crate::Reuse)).
    /// Blocks as [`Pool::run`] does.
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

    /// Runs the script or verifies the transaction in `file` in a fresh child, in the interpreter, and tells
    /// where its cycles went. `cells` are those that the job of a transaction lists. Blocks as [`Pool::run`]
    /// does.
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

    /// Runs or verifies what failed once more in a fresh child, and keeps evidence of how it ended. Blocks as
    /// [`Pool::run`] does.
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

    /// Verifies what failed once more in a fresh child, with the transaction and the cells of `files` beside
    /// it, and keeps evidence of how it ended. Blocks as [`Pool::run`] does.
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
        let mut reports = Vec::new();
        // Each was checked to be one.
        let take = |part: RunWorkerReport| reports.extend(part.into_run());
        let known = Known::batch(job, elf, library.is_some());
        let kind = self.kind(elf, library);
        let verdict = self.call((job, known), &script(elf, library), kind, until.into(), take)?;
        if let Verdict::FalseReport { .. } = verdict {
            reports.clear();
        }
        Ok(BatchEnd { reports, verdict })
    }

    /// Compiles `elf` in a fresh child; the code of a library is then checked in another one. Blocks as
    /// [`Pool::run`] does, and not longer than the job's own limit, and that of the check.
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

    /// How the pool does, now.
    #[must_use]
    pub fn stats(&self) -> PoolStats {
        self.owner.ledger.stats()
    }

    /// Looks at some workers from outside, as the kernel sees them, and counts those whose fence is not
    /// whole. A few file reads.
    pub fn inspect(&self) {
        let Some(zygote) = self.stats().zygote_pid else { return };
        let seen = inspect(zygote);
        for fault in &seen.unfenced {
            tracing::error!(fault, "a worker has an incomplete sandbox");
        }
        self.owner.ledger.count_inspected(seen.looked_at, seen.unfenced.len() as u64);
        // Its zygote may have ended since it was asked for.
        if seen.looked_at == 0 && self.stats().zygote_pid == Some(zygote) {
            self.owner.ledger.count(Count::Blind);
        }
    }

    /// Whether there will be no workers any more, as far as can be told: nobody makes zygotes, or none got
    /// ready for minutes.
    #[must_use]
    pub fn is_beyond_help(&self) -> bool {
        let has_ended = self.owner.supervisor.as_ref().is_none_or(JoinHandle::is_finished);
        has_ended || self.owner.ledger.is_deserted(DESERTED_AFTER)
    }

    /// What the start-up self-test said.
    #[must_use]
    pub fn layers(&self) -> &[LayerStatus] {
        &self.owner.layers
    }
}

/// The files of a job on a script.
fn script<'a>(elf: &'a Sealed, library: Option<&'a Sealed>) -> Vec<BorrowedFd<'a>> {
    std::iter::once(elf).chain(library).map(AsFd::as_fd).collect()
}

/// Path of the worker binary `name`: in `$ANTARES_WORKER_DIR`, or beside this executable, or one folder above
/// it.
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
