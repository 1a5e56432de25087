//! A separate process for one script group, which requests a debugger's services from its parent. It does not
//! belong to a pool: it enters its sandbox, does one job, and ends; messages travel through two pipes. It is
//! either a started program, or a fork of this process, which starts in a tenth of the time and already has its
//! job.

use std::{
    fs::File,
    io::{self, BufReader, Read as _, Write},
    mem::ManuallyDrop,
    os::{
        fd::{AsFd as _, FromRawFd, IntoRawFd as _, OwnedFd},
        unix::process::CommandExt as _,
    },
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{Mutex, PoisonError},
    time::Instant,
};

use antares_hosted::{
    Link,
    job::{HostAnswer, HostCall, HostedJob, HostedNews},
};
use antares_sandbox::{Confinement, Fork, Layer, LayerStatus, Policy, SandboxError, exit_now, fork, move_to};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    pipe::{PipeFlags, pipe_with},
    process::{Pid, Signal, WaitOptions, getpid, getppid, kill_process, waitpid},
};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    PoolError, Sealed,
    checks::{Judged as _, Known, KnownRun, KnownVerification, Progress},
    frame::{self, FrameError, REPORT_BYTES_MAX},
    job::{RunJob, RunReport, RunWorkerReport, VerifyJob, VerifyReport},
    process_state::{ProcessKind, settle},
};

/// The argument that starts a hosted process, followed by its parent's process id.
const HOSTED_ARGUMENT: &str = "--hosted";
/// Maximum bytes of a frame: the longest is a job with a transaction and a script.
const FRAME_BYTES_MAX: usize = 192 << 20;

/// The parent's view of a hosted process.
#[derive(Debug)]
pub struct Hosted {
    process: Process,
    to: File,
    from: BufReader<File>,
}

/// Killed on drop.
#[derive(Debug)]
pub(crate) enum Process {
    /// A started program.
    Started(Child),
    /// A child that only this process reaps.
    Forked(Pid),
}

/// Starts the program at `worker` with a word, the number of this process and the other words, without an environment: the
/// process, and the pipes to its standard input and from its output.
pub(crate) fn start_piped(worker: &Path, words: &[&str]) -> Result<(Process, OwnedFd, OwnedFd), PoolError> {
    let start = |source| PoolError::Start { path: worker.to_owned(), source };
    let mut process = Command::new(worker)
        .args(words.first())
        .arg(std::process::id().to_string())
        .args(words.iter().skip(1))
        .env_clear()
        .current_dir("/")
        // Terminal signals only reach the parent.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(start)?;
    let pipes = process.stdin.take().zip(process.stdout.take());
    let Some((to, from)) = pipes else { return Err(start(io::ErrorKind::BrokenPipe.into())) };
    Ok((Process::Started(process), to.into(), from.into()))
}

impl Hosted {
    /// Starts the program at `worker`, which locks itself in and waits for its job. Layers that are `accepted` may
    /// be missing.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(worker: &Path, accepted: &[Layer]) -> Result<Self, PoolError> {
        let (process, to, from) = start_piped(worker, &[HOSTED_ARGUMENT, &layer_names(accepted)])?;
        Ok(Self::of(process, to, from))
    }

    /// Forks this process. The child locks itself in, does `work`, which has its job already and hears which
    /// required layers are missing, and ends. None where this process has several threads: a child could then wait
    /// for ever for what another one holds.
    ///
    /// The child ends when the calling thread ends.
    ///
    /// # Errors
    /// There are no more processes or descriptors.
    pub fn fork(work: impl FnOnce(HostPipes, Vec<LayerStatus>)) -> io::Result<Option<Self>> {
        if std::fs::read_dir("/proc/self/task")?.count() != 1 {
            return Ok(None);
        }
        let (reads, to) = pipe_with(PipeFlags::CLOEXEC)?;
        let (from, writes) = pipe_with(PipeFlags::CLOEXEC)?;
        let parent = getpid();
        // SAFETY: the process has only this thread: threads were counted, and nothing else creates any.
        match unsafe { fork() }? {
            Fork::Parent(child) => Ok(Some(Self::of(Process::Forked(child), to, from))),
            Fork::Child => {
                let served = catch_unwind(AssertUnwindSafe(|| serve_forked(parent, reads, writes, work)));
                // The panic was already reported. Drop nothing of the parent's here.
                let Ok(Err(error)) = served else { exit_now(i32::from(served.is_err())) };
                eprintln!("Error: {error}");
                exit_now(1)
            }
        }
    }

    fn of(process: Process, to: OwnedFd, from: OwnedFd) -> Self {
        Self { process, to: to.into(), from: BufReader::new(from.into()) }
    }

    /// Sends its only job.
    ///
    /// # Errors
    /// The process has ended.
    pub fn give(&mut self, job: &HostedJob) -> io::Result<()> {
        send(&mut self.to, job, FRAME_BYTES_MAX)
    }

    /// Waits until the deadline for its report on `job`; `None` if there was none.
    ///
    /// # Errors
    /// The process has ended, or its report cannot be true.
    pub fn verified_until(&mut self, until: Instant, job: &VerifyJob) -> io::Result<Option<VerifyReport>> {
        let known = KnownVerification { may_be_hot: false, ..KnownVerification::new(job, 0) };
        match self.report_until(until, (&Known::Verify(known), job.debug_bytes_max))? {
            Some(RunWorkerReport::Verify(report)) => Ok(Some(report)),
            _ => Ok(None),
        }
    }

    /// Waits until the deadline for its report on `job`, an interpreted run of `elf`; `None` if there was none.
    ///
    /// # Errors
    /// Those of [`Hosted::verified_until`].
    pub fn ran_until(&mut self, until: Instant, job: &RunJob, elf: &Sealed) -> io::Result<Option<RunReport>> {
        let known = Known::Run(KnownRun::new(job, elf, false));
        let report = self.report_until(until, (&known, job.debug_bytes_max))?;
        Ok(report.and_then(RunWorkerReport::into_run))
    }

    fn report_until(
        &mut self,
        until: Instant,
        (known, debug_bytes_max): (&Known, u64),
    ) -> io::Result<Option<RunWorkerReport>> {
        if !self.is_heard_until(until)? {
            return Ok(None);
        }
        let report: RunWorkerReport = frame::read(&mut self.from, REPORT_BYTES_MAX).map_err(to_io)?;
        report.check(known, &Progress::default()).map_err(io::Error::other)?;
        if report.talks_too_much(debug_bytes_max) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(Some(report))
    }

    /// Waits for its next message.
    ///
    /// # Errors
    /// The process has ended, or sends invalid data.
    pub fn news(&mut self) -> io::Result<HostedNews> {
        frame::read(&mut self.from, FRAME_BYTES_MAX).map_err(to_io)
    }

    /// Like [`Hosted::news`], but waits only until the deadline; `None` if there was no message.
    ///
    /// # Errors
    /// Those of [`Hosted::news`].
    pub fn news_until(&mut self, until: Instant) -> io::Result<Option<HostedNews>> {
        if self.is_heard_until(until)? { self.news().map(Some) } else { Ok(None) }
    }

    /// Waits until the deadline for readable data.
    fn is_heard_until(&self, until: Instant) -> io::Result<bool> {
        loop {
            if !self.from.buffer().is_empty() {
                return Ok(true);
            }
            let left = until.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left).map_err(io::Error::other)?;
            let mut asked = [PollFd::new(self.from.get_ref(), PollFlags::IN)];
            match poll(&mut asked, Some(&left)) {
                Ok(found) => return Ok(found > 0),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Answers its last call.
    ///
    /// # Errors
    /// The process has ended.
    pub fn answer(&mut self, answer: &HostAnswer) -> io::Result<()> {
        send(&mut self.to, answer, FRAME_BYTES_MAX)
    }

    /// Its standard input, for forwarding a third process's messages.
    ///
    /// # Errors
    /// There are too few descriptors.
    pub fn input(&self) -> io::Result<File> {
        Ok(self.to.as_fd().try_clone_to_owned()?.into())
    }

    /// Its process id, for ending it.
    #[must_use]
    pub fn id(&self) -> u32 {
        match &self.process {
            Process::Started(child) => child.id(),
            Process::Forked(pid) => pid.as_raw_nonzero().get().cast_unsigned(),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended.
        match self {
            Process::Started(child) => {
                let _ = child.kill();
                let _ = child.wait();
            }
            Process::Forked(child) => {
                // The process id is not reused before the child is reaped.
                let _ = kill_process(*child, Signal::KILL);
                while matches!(waitpid(Some(*child), WaitOptions::empty()), Err(Errno::INTR)) {}
            }
        }
    }
}

/// A hosted process's pipes to its parent.
#[derive(Debug)]
pub struct HostPipes(Mutex<ParentPipes>);

/// A separate process's pipes to its parent, at standard input and output.
#[derive(Debug)]
pub struct ParentPipes {
    from: ManuallyDrop<File>,
    to: ManuallyDrop<File>,
    /// Maximum bytes of a frame.
    bytes_max: usize,
}

impl HostPipes {
    /// Sends a message to the parent.
    ///
    /// # Errors
    /// The parent is gone.
    pub fn notify(&self, news: &HostedNews) -> io::Result<()> {
        self.lock().notify(news)
    }

    /// Sends the report to the parent, as the last message.
    ///
    /// # Errors
    /// The parent is gone.
    pub fn send_report(&self, report: &RunWorkerReport) -> io::Result<()> {
        send(&mut self.lock().to, report, REPORT_BYTES_MAX)
    }

    /// Requests a guest's host call from the parent.
    ///
    /// # Errors
    /// The parent is gone.
    pub fn request(&self, call: HostCall) -> io::Result<HostAnswer> {
        let mut pipes = self.lock();
        pipes.notify(&HostedNews::Call(call))?;
        pipes.read()
    }

    /// Reads forwarded input, at least one byte; none at the end.
    ///
    /// # Errors
    /// The input cannot be read.
    pub fn hear(&self, into: &mut [u8]) -> io::Result<usize> {
        self.lock().from.read(into)
    }

    /// Whether input is available, or has ended.
    ///
    /// # Errors
    /// The system's error.
    pub fn is_heard(&self) -> io::Result<bool> {
        self.lock().is_heard()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, ParentPipes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The parent as the host of a script. Without a parent, the process ends.
#[derive(Debug)]
pub struct ParentLink(pub HostPipes);

impl Link for ParentLink {
    fn notify(&self, news: HostedNews) {
        if self.0.notify(&news).is_err() {
            exit_now(1);
        }
    }

    fn request(&self, call: HostCall) -> HostAnswer {
        self.0.request(call).unwrap_or_else(|_| exit_now(1))
    }
}

impl ParentPipes {
    pub(crate) fn standard(bytes_max: usize) -> Self {
        // SAFETY: nothing else uses the standard descriptors, which are never closed.
        let pipe = |fd| ManuallyDrop::new(unsafe { File::from_raw_fd(fd) });
        Self { from: pipe(0), to: pipe(1), bytes_max }
    }

    /// Sends a message to the parent.
    ///
    /// # Errors
    /// The parent is gone.
    pub fn notify<T: Serialize>(&mut self, message: &T) -> io::Result<()> {
        send(&mut self.to, message, self.bytes_max)
    }

    /// Reads the next message.
    pub(crate) fn read<T: DeserializeOwned>(&mut self) -> io::Result<T> {
        frame::read(&mut *self.from, self.bytes_max).map_err(to_io)
    }

    /// The parent's next message, if it is available now.
    ///
    /// # Errors
    /// The parent is gone.
    pub fn hear<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        if self.is_heard()? { self.read().map(Some) } else { Ok(None) }
    }

    fn is_heard(&self) -> io::Result<bool> {
        let mut asked = [PollFd::new(&*self.from, PollFlags::IN)];
        Ok(poll(&mut asked, Some(&Timespec::default()))? > 0)
    }
}

/// Sends a frame.
pub(crate) fn send<T: Serialize>(to: &mut File, message: &T, bytes_max: usize) -> io::Result<()> {
    to.write_all(&frame::encode(message, bytes_max).map_err(to_io)?)
}

/// Whether this process was started as a hosted process.
#[must_use]
pub fn is_hosted() -> bool {
    is_started_with(HOSTED_ARGUMENT)
}

pub(crate) fn is_started_with(word: &str) -> bool {
    std::env::args().nth(1).as_deref() == Some(word)
}

/// Enters the sandbox, and passes the job to `work`.
///
/// # Errors
/// The process was not started by [`Hosted::start`], or cannot enter the sandbox.
pub fn serve_hosted(work: impl FnOnce(HostedJob, HostPipes) -> io::Result<()>) -> io::Result<()> {
    serve_parent(|parent| {
        // SAFETY: nothing in this process has opened a descriptor; the standard ones are kept.
        let missing = unsafe { lock_in(parent) }?;
        let mut pipes = ParentPipes::standard(FRAME_BYTES_MAX);
        let job = pipes.read()?;
        let accepted = std::env::args().nth(3).unwrap_or_default();
        match layers_missing(missing, |layer| accepted.split(',').any(|name| name == layer.name())) {
            Some(news) => pipes.notify(&news),
            None => work(job, HostPipes(Mutex::new(pipes))),
        }
    })
}

/// Sets up this process and lets it `serve` its parent, whose process id is its second argument. If the parent
/// has ended, possibly before this process started, it sends no report and prints nothing.
pub(crate) fn serve_parent(serve: impl FnOnce(Pid) -> io::Result<()>) -> io::Result<()> {
    let parent = std::env::args().nth(2).and_then(|text| text.parse().ok()).and_then(Pid::from_raw);
    let parent = parent.ok_or(io::ErrorKind::InvalidInput)?;
    if getppid() != Some(parent) {
        return Ok(());
    }
    settle(ProcessKind::Zygote);
    match serve(parent) {
        Err(error) if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof) => {
            Ok(())
        }
        served => served,
    }
}

/// The same in a forked child, with pipes that are not at their descriptors yet.
fn serve_forked(
    parent: Pid,
    reads: OwnedFd,
    writes: OwnedFd,
    work: impl FnOnce(HostPipes, Vec<LayerStatus>),
) -> io::Result<()> {
    settle(ProcessKind::Zygote);
    for (pipe, number) in [(&reads, 0), (&writes, 1)] {
        // SAFETY: only the standard library's handles own these numbers, and this process does not use those.
        unsafe { move_to(pipe.as_fd(), number) }?;
    }
    // The sandbox closes them.
    let _ = (reads.into_raw_fd(), writes.into_raw_fd());
    // SAFETY: what has descriptors in this process is the parent's copy, which nobody here uses or drops: it
    // ends by `exit_now`.
    let missing = unsafe { lock_in(parent) }?;
    work(HostPipes(Mutex::new(ParentPipes::standard(FRAME_BYTES_MAX))), missing);
    Ok(())
}

/// The message to the parent if a layer in `missing` is not accepted.
pub fn layers_missing(
    mut missing: Vec<LayerStatus>,
    is_accepted: impl Fn(Layer) -> bool,
) -> Option<HostedNews> {
    missing.retain(|status| !is_accepted(status.layer));
    let names = layer_names(missing.iter().map(|status| &status.layer));
    let text = || PoolError::LayersMissing { missing }.to_string();
    (!names.is_empty()).then(|| HostedNews::LayersMissing { text: text(), names })
}

/// Names of layers, with commas between them.
pub fn layer_names<'a>(layers: impl IntoIterator<Item = &'a Layer>) -> String {
    layers.into_iter().map(|layer| layer.name()).collect::<Vec<_>>().join(",")
}

/// Locks this process in, with its standard descriptors; the required layers that are missing.
///
/// # Safety
/// No other descriptor is used or closed by its owner after this call.
pub(crate) unsafe fn lock_in(parent: Pid) -> io::Result<Vec<LayerStatus>> {
    let confinement = Confinement::new(Policy::hosted()).map_err(io::Error::other)?;
    // SAFETY: the caller vouches for the owners of descriptors.
    let mut layers = unsafe { confinement.lock_in(parent) }.map_err(|error| match error {
        SandboxError::ParentGone => io::ErrorKind::BrokenPipe.into(),
        error => io::Error::other(error),
    })?;
    layers.retain(|status| status.layer.is_required() && !status.active);
    Ok(layers)
}

pub(crate) fn to_io(error: FrameError) -> io::Error {
    match error {
        FrameError::Io(error) => error,
        other => io::Error::other(other),
    }
}
