//! One job's way through a pool: slot, child, conversation, and what its end means.

use std::{
    fmt::Write as _,
    fs::File,
    io::{ErrorKind, Read},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
    time::{Duration, Instant},
};

use antares_sandbox::EXTRA_FDS_MAX;
use rustix::pipe::{PipeFlags, pipe_with};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    PoolError, Verdict,
    cancel::Until,
    child::Reply,
    frame::{self, FrameError, JOB_BYTES_MAX},
    ledger::{Count, Fate, Ledger, Link},
    talk::{Heard, converse},
    wire::{self, End, Spawn},
};

/// Time for a child to end after its stream closed or its report came. The kernel needs microseconds to milliseconds.
const END_WITHIN: Duration = Duration::from_secs(5);
/// Bytes of a child's standard error that are kept.
const LAST_WORDS_BYTES_MAX: usize = 4 << 10;

/// A job to be done, without the job itself.
pub(crate) struct Errand<'a> {
    pub(crate) ledger: &'a Arc<Ledger>,
    pub(crate) elf: BorrowedFd<'a>,
    /// At most `EXTRA_FDS_MAX`.
    pub(crate) extras: Vec<BorrowedFd<'a>>,
    /// Whether the child's standard error is worth keeping, and its end worth waiting for.
    pub(crate) compiles: bool,
    pub(crate) reply_bytes_max: usize,
    pub(crate) until: Until,
}

/// A child, from its slot to its end; whatever happens in between, it does not outlive this.
struct Admitted<'a> {
    ledger: &'a Ledger,
    ticket: u64,
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        self.ledger.forget(self.ticket);
    }
}

impl Errand<'_> {
    /// Has `job` done in a fresh child.
    pub(crate) fn run<J: Serialize, R: DeserializeOwned>(&self, job: &J) -> Result<Verdict<R>, PoolError> {
        self.run_in_parts(job, 0, |_| {})
    }

    /// As [`Errand::run`]; the child may answer with as many as `parts_max` parts first.
    pub(crate) fn run_in_parts<J: Serialize, R: DeserializeOwned>(
        &self,
        job: &J,
        parts_max: usize,
        mut take: impl FnMut(R),
    ) -> Result<Verdict<R>, PoolError> {
        let job = frame::encode(job, JOB_BYTES_MAX).map_err(|error| match error {
            FrameError::TooLarge { bytes, bytes_max } => PoolError::JobTooLarge { bytes, bytes_max },
            other => PoolError::Io { step: "encode a job", source: std::io::Error::other(other) },
        })?;
        let (admitted, stream, last_words) = self.admit()?;
        let mut parts_left = parts_max;
        let take_part =
            |content: &[u8]| match parts_left.checked_sub(1).map(|left| (left, frame::decode(content))) {
                Some((left, Ok(Reply::Part(part)))) => {
                    parts_left = left;
                    take(part);
                    true
                }
                _ => false,
            };
        let heard = converse(stream.as_fd(), &job, self.reply_bytes_max, self.until.deadline, take_part)
            .map_err(PoolError::io("talk to a worker"))?;
        let verdict = self.judge(&admitted, heard);
        drop(admitted);
        if self.until.is_cancelled() && !matches!(verdict, Verdict::Done(_)) {
            return Err(PoolError::Cancelled);
        }
        let count = match verdict {
            Verdict::Done(_) => return Ok(verdict),
            Verdict::DeadlineExceeded => Count::Deadline,
            Verdict::SandboxViolation { .. } => Count::Violation,
            Verdict::WorkerLost { .. } => Count::Lost,
        };
        self.ledger.count(count);
        Ok(verdict.with_detail(|| said(last_words)))
    }

    /// Waits for a slot and a zygote, and asks it for a child. A zygote that died before it could be asked did not lose
    /// anything: the next one is asked.
    fn admit(&self) -> Result<(Admitted<'_>, OwnedFd, Option<OwnedFd>), PoolError> {
        let cancel = self.until.cancel.as_ref();
        loop {
            if let Some(cancel) = cancel {
                cancel.begin(self.ledger);
            }
            let (ticket, link) = self.ledger.admit(&self.until)?;
            let admitted = Admitted { ledger: self.ledger, ticket };
            if cancel.is_some_and(|cancel| !cancel.admitted(ticket)) {
                self.ledger.ended(ticket, Fate::NotSpawned { detail: PoolError::Cancelled.to_string() });
                return Err(PoolError::Cancelled);
            }
            match self.spawn(ticket, &link) {
                Ok((stream, last_words)) => return Ok((admitted, stream, last_words)),
                Err(error) => {
                    // The zygote never heard of this ticket.
                    self.ledger.ended(ticket, Fate::NotSpawned { detail: error.to_string() });
                    let is_lost = matches!(&error, PoolError::Io { source, .. }
                        if matches!(source.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset));
                    if !is_lost {
                        return Err(error);
                    }
                    self.ledger.lost(&link);
                }
            }
        }
    }

    /// Asks the zygote for a child; answers with our end of its stream, and the reading end of its standard error.
    fn spawn(&self, ticket: u64, link: &Link) -> Result<(OwnedFd, Option<OwnedFd>), PoolError> {
        let (ours, theirs) = wire::stream_pair().map_err(PoolError::io("make a socket for a worker"))?;
        let (last_words, stderr) = if self.compiles {
            let pipe = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK);
            let (reader, writer) = pipe.map_err(PoolError::io("make a pipe for a worker"))?;
            (Some(reader), Some(writer))
        } else {
            (None, None)
        };
        let extras =
            u8::try_from(self.extras.len()).ok().filter(|count| usize::from(*count) <= EXTRA_FDS_MAX);
        let extras = extras.ok_or(PoolError::TooManyFiles { most: EXTRA_FDS_MAX })?;
        let spawn = Spawn { ticket, extras, has_stderr: stderr.is_some() };
        let mut fds = vec![theirs.as_fd(), self.elf];
        fds.extend(&self.extras);
        fds.extend(stderr.as_ref().map(AsFd::as_fd));
        wire::send(link.socket.as_fd(), &spawn, &fds).map_err(PoolError::io("ask for a worker"))?;
        Ok((ours, last_words))
    }

    fn judge<R: DeserializeOwned>(&self, admitted: &Admitted<'_>, heard: Heard) -> Verdict<R> {
        let content = match heard {
            Heard::Reply(content) => content,
            Heard::TimedOut => return Verdict::DeadlineExceeded,
            Heard::Malformed { detail } => return Verdict::WorkerLost { detail },
            Heard::Closed => {
                // Most likely it is dead. If not, it has nothing to live for.
                self.ledger.condemn(admitted.ticket);
                let fate = self.ledger.fate(admitted.ticket, Instant::now() + END_WITHIN);
                return meaning(fate.as_ref());
            }
        };
        let reply = match frame::decode(&content) {
            Ok(Reply::Done(report)) => report,
            Ok(Reply::Failed { detail }) => return Verdict::WorkerLost { detail },
            Ok(Reply::Part(_)) => {
                return Verdict::WorkerLost {
                    detail: "it answered with more parts than asked for".to_owned(),
                };
            }
            Err(error) => return Verdict::WorkerLost { detail: error.to_string() },
        };
        if self.compiles {
            // Its output may only be looked at when nobody can change it any more.
            let fate = self.ledger.fate(admitted.ticket, Instant::now() + END_WITHIN);
            if fate != Some(Fate::Ended(End::Exit(0))) {
                return meaning(fate.as_ref());
            }
        }
        Verdict::Done(reply)
    }
}

/// What the end of a child without a report, or after an unusable one, means.
fn meaning<R>(fate: Option<&Fate>) -> Verdict<R> {
    let detail = match fate {
        Some(Fate::Ended(End::Signal(libc::SIGSYS))) => {
            let detail = "a system call outside of the policy (SIGSYS)".to_owned();
            return Verdict::SandboxViolation { detail };
        }
        Some(Fate::Ended(End::Signal(signal))) => format!("killed by {}", signal_name(*signal)),
        Some(Fate::Ended(End::Exit(status))) => format!("exited with status {status} without a report"),
        Some(Fate::NotSpawned { detail }) => detail.clone(),
        Some(Fate::ZygoteLost) => "its zygote died".to_owned(),
        None => format!("closed its stream, but did not end within {} s", END_WITHIN.as_secs()),
    };
    Verdict::WorkerLost { detail }
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGILL => "SIGILL",
        libc::SIGKILL => "SIGKILL",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGTERM => "SIGTERM",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        other => return format!("signal {other}"),
    };
    name.to_owned()
}

/// The end of what a child wrote to standard error, if it did. The pipe bounds it, and nobody waits for more.
fn said(last_words: Option<OwnedFd>) -> Option<String> {
    let mut bytes = Vec::new();
    // The error is the end of what is there now; what was read before it is kept.
    let _ = File::from(last_words?).read_to_end(&mut bytes);
    let tail = &bytes[bytes.len().saturating_sub(LAST_WORDS_BYTES_MAX)..];
    let text = String::from_utf8_lossy(tail).trim().to_owned();
    (!text.is_empty()).then_some(text)
}

impl<T> Verdict<T> {
    /// Adds to the detail, if the verdict has one.
    fn with_detail(mut self, more: impl FnOnce() -> Option<String>) -> Self {
        if let Self::SandboxViolation { detail } | Self::WorkerLost { detail } = &mut self
            && let Some(more) = more()
        {
            // Writing to a string does not fail.
            let _ = write!(detail, ": {more}");
        }
        self
    }
}
