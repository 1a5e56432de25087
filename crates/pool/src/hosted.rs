//! A process of its own for one script group, which asks its parent what a script asks of a debugger. It is
//! no worker of a pool: it locks itself in, does its job, and ends; jobs, questions and answers travel
//! through two pipes.

use std::{
    fs::File,
    io::{self, BufReader, Read as _, Write},
    mem::ManuallyDrop,
    os::fd::{AsFd as _, FromRawFd},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{Mutex, PoisonError},
};

use antares_hosted::{
    job::{HostAnswer, HostCall, HostedJob, HostedNews},
    look::LookAsk,
};
use antares_sandbox::{Jail, Policy};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, getppid},
};

use crate::{
    PoolError,
    frame::{self, FrameError},
    process_state::{ProcessKind, settle},
};

/// The argument that makes a worker a hosted process; its parent's number follows.
const HOSTED_ARGUMENT: &str = "--hosted";
/// Bytes of any frame, at most: the longest is a job with a transaction and a script beside it.
const FRAME_BYTES_MAX: usize = 192 << 20;

/// A hosted process, seen from its parent. Dropped, it is killed.
#[derive(Debug)]
pub struct Hosted {
    process: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Hosted {
    /// Starts the program at `worker`, which locks itself in and waits for its job.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(worker: &Path) -> Result<Self, PoolError> {
        let start = |source| PoolError::Start { path: worker.to_owned(), source };
        let mut process = Command::new(worker)
            .args([HOSTED_ARGUMENT, &std::process::id().to_string()])
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(start)?;
        let pipes = process.stdin.take().zip(process.stdout.take());
        let Some((to, from)) = pipes else { return Err(start(io::ErrorKind::BrokenPipe.into())) };
        Ok(Self { process, to, from: BufReader::new(from) })
    }

    /// Gives it its only job.
    ///
    /// # Errors
    /// It has ended.
    pub fn give(&mut self, job: &HostedJob) -> io::Result<()> {
        self.send(job)
    }

    /// Waits for its next news.
    ///
    /// # Errors
    /// It has ended, or says what makes no sense.
    pub fn news(&mut self) -> io::Result<HostedNews> {
        frame::read(&mut self.from, FRAME_BYTES_MAX).map_err(to_io)
    }

    /// Answers its last call.
    ///
    /// # Errors
    /// It has ended.
    pub fn answer(&mut self, answer: &HostAnswer) -> io::Result<()> {
        self.send(answer)
    }

    /// Its standard input, for whoever passes on what somebody else says to it.
    ///
    /// # Errors
    /// There are no more descriptors.
    pub fn input(&self) -> io::Result<File> {
        Ok(self.to.as_fd().try_clone_to_owned()?.into())
    }

    /// The way to it for the keys of a screen.
    ///
    /// # Errors
    /// There are no more descriptors.
    pub fn keys(&self) -> io::Result<LookKeys> {
        self.input().map(LookKeys)
    }

    /// Its number, for whoever is to end it.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    fn send<T: serde::Serialize>(&mut self, message: &T) -> io::Result<()> {
        self.to.write_all(&frame::encode(message, FRAME_BYTES_MAX).map_err(to_io)?)
    }
}

impl Drop for Hosted {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The way to a hosted process for the keys of a screen.
#[derive(Debug)]
pub struct LookKeys(File);

impl LookKeys {
    /// Asks for something.
    ///
    /// # Errors
    /// It has ended.
    pub fn ask(&mut self, ask: &LookAsk) -> io::Result<()> {
        self.0.write_all(&frame::encode(ask, FRAME_BYTES_MAX).map_err(to_io)?)
    }
}

/// The pipes to the parent, seen from a hosted process.
#[derive(Debug)]
pub struct HostPipes(Mutex<Pipes>);

#[derive(Debug)]
struct Pipes {
    from: ManuallyDrop<File>,
    to: ManuallyDrop<File>,
}

impl HostPipes {
    /// Tells the parent something.
    ///
    /// # Errors
    /// The parent is gone.
    pub fn tell(&self, news: &HostedNews) -> io::Result<()> {
        self.lock().tell(news)
    }

    /// Asks the parent to do what a guest wants.
    ///
    /// # Errors
    /// The parent is gone.
    pub fn ask(&self, call: HostCall) -> io::Result<HostAnswer> {
        let mut pipes = self.lock();
        pipes.tell(&HostedNews::Call(call))?;
        frame::read(&mut *pipes.from, FRAME_BYTES_MAX).map_err(to_io)
    }

    /// Waits for what the keys of a screen ask for next.
    ///
    /// # Errors
    /// The parent is gone.
    pub fn hear_key(&self) -> io::Result<LookAsk> {
        frame::read(&mut *self.lock().from, FRAME_BYTES_MAX).map_err(to_io)
    }

    /// Reads what somebody behind the parent says, at least one byte; none at the end.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn hear(&self, into: &mut [u8]) -> io::Result<usize> {
        self.lock().from.read(into)
    }

    /// Whether there is something to hear, or nobody any more who could say something.
    ///
    /// # Errors
    /// The system cannot tell.
    pub fn is_heard(&self) -> io::Result<bool> {
        let pipes = self.lock();
        let mut asked = [PollFd::new(&*pipes.from, PollFlags::IN)];
        Ok(poll(&mut asked, Some(&Timespec::default()))? > 0)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Pipes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pipes {
    fn tell(&mut self, news: &HostedNews) -> io::Result<()> {
        self.to.write_all(&frame::encode(news, FRAME_BYTES_MAX).map_err(to_io)?)
    }
}

/// In a program that may be one: whether it was started as a hosted process.
#[must_use]
pub fn is_hosted() -> bool {
    std::env::args().nth(1).as_deref() == Some(HOSTED_ARGUMENT)
}

/// Locks the process in, and gives its job to `work`.
///
/// # Errors
/// It was not started by [`Hosted::start`], cannot be locked in, or its parent is gone.
pub fn serve_hosted(work: impl FnOnce(HostedJob, HostPipes) -> io::Result<()>) -> io::Result<()> {
    let parent = std::env::args().nth(2).and_then(|text| text.parse().ok()).and_then(Pid::from_raw);
    let parent = parent.filter(|parent| getppid() == Some(*parent)).ok_or(io::ErrorKind::InvalidInput)?;
    settle(ProcessKind::Zygote);
    let jail = Jail::new(Policy::hosted()).map_err(io::Error::other)?;
    // SAFETY: nothing in this process has opened a descriptor; the standard ones are kept.
    unsafe { jail.lock_in(parent) }.map_err(io::Error::other)?;
    // SAFETY: nothing else uses the standard descriptors, which are never closed.
    let pipe = |fd| ManuallyDrop::new(unsafe { File::from_raw_fd(fd) });
    let mut pipes = Pipes { from: pipe(0), to: pipe(1) };
    let job = frame::read(&mut *pipes.from, FRAME_BYTES_MAX).map_err(to_io)?;
    work(job, HostPipes(Mutex::new(pipes)))
}

fn to_io(error: FrameError) -> io::Error {
    match error {
        FrameError::Io(error) => error,
        other => io::Error::other(other),
    }
}
