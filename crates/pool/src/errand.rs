//! One job's way through a pool: slot, child, conversation, what its end means, and whether the child may rest.

use std::{
    fmt::Write as _,
    fs::File,
    io::{ErrorKind, Read},
    mem,
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
    ledger::{Admission, Count, FIRST_TURN, Fate, Ledger, Link},
    line::Line,
    reuse::{Kind, Warm},
    talk::{Heard, converse},
    wire::{self, End, Spawn},
};

/// Time for a child to end after its report came. The kernel needs microseconds to milliseconds.
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
    /// What other jobs must have in common with this one to share a worker, if they may.
    pub(crate) kind: Option<Kind>,
    /// Bytes of debug output that a worker for it must have memory for, and that a new one takes memory for.
    pub(crate) debug_bytes: (u64, u64),
}

/// A child, from its slot to its end or its rest; whatever happens in between, it does not outlive this without.
struct Admitted<'a> {
    ledger: &'a Ledger,
    ticket: u64,
    line: Arc<Line>,
    last_words: Option<OwnedFd>,
    /// What it was, if it has done a job before.
    warm: Option<Warm>,
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        self.ledger.forget(self.ticket);
    }
}

/// What a report says about the worker that made it.
pub(crate) trait Judged {
    /// Whether everything went as it should, so that the worker may do another job.
    fn is_clean(&self) -> bool;
}

/// A worker's answer, and whether it can do another job.
struct Answer<R> {
    verdict: Verdict<R>,
    stays: bool,
}

impl Errand<'_> {
    /// Has `job` done in a child.
    pub(crate) fn run<J: Serialize, R: DeserializeOwned + Judged>(
        &self,
        job: &J,
    ) -> Result<Verdict<R>, PoolError> {
        self.run_in_parts(job, 0, |_| {})
    }

    /// As [`Errand::run`]; the child may answer with as many as `parts_max` parts first.
    pub(crate) fn run_in_parts<J: Serialize, R: DeserializeOwned + Judged>(
        &self,
        job: &J,
        parts_max: usize,
        mut take: impl FnMut(R),
    ) -> Result<Verdict<R>, PoolError> {
        let job = frame::encode(job, JOB_BYTES_MAX).map_err(|error| match error {
            FrameError::TooLarge { bytes, bytes_max } => PoolError::JobTooLarge { bytes, bytes_max },
            other => PoolError::Io { step: "encode a job", source: std::io::Error::other(other) },
        })?;
        let (mut runs, mut is_clean) = (0_u64, true);
        let mut take_part = |content: &[u8]| match frame::decode(content) {
            Ok(Reply::Part(part)) if runs < parts_max as u64 => {
                runs += 1;
                is_clean &= R::is_clean(&part);
                take(part);
                true
            }
            _ => false,
        };
        let (admitted, heard, since) = loop {
            let admitted = self.admit()?;
            let (since, place) = (Instant::now(), admitted.line.place());
            let deadline = self.until.deadline;
            let heard = converse(&admitted.line, &job, self.reply_bytes_max, deadline, &mut take_part);
            let is_warm = admitted.warm.is_some();
            if is_warm && heard == Heard::Closed && admitted.line.is_untouched_since(place) {
                // It died between jobs, before it heard of this one.
                continue;
            }
            break (admitted, heard, since);
        };
        let Answer { verdict, stays } = self.judge::<R>(&admitted, heard);
        let count = match &verdict {
            Verdict::Done(report) => {
                if stays && is_clean && report.is_clean() {
                    self.rest(admitted, runs.max(1), since);
                }
                return Ok(verdict);
            }
            _ if self.until.is_cancelled() => return Err(PoolError::Cancelled),
            Verdict::DeadlineExceeded => Count::Deadline,
            Verdict::SandboxViolation { .. } => Count::Violation,
            Verdict::WorkerLost { .. } => Count::Lost,
        };
        self.ledger.count(count);
        Ok(verdict.with_detail(|| said(admitted)))
    }

    /// Lets the child wait for another job, if it may.
    fn rest(&self, admitted: Admitted<'_>, runs: u64, since: Instant) {
        let Some(kind) = &self.kind else { return };
        let mut warm = admitted.warm.clone().unwrap_or_else(|| Warm {
            ticket: admitted.ticket,
            turn: FIRST_TURN,
            line: Arc::clone(&admitted.line),
            kind: kind.clone(),
            debug_bytes_max: self.debug_bytes.1,
            runs: 0,
            busy: Duration::ZERO,
        });
        if warm.note(runs, since, self.ledger.reuse()) {
            // It is not to be ended here.
            mem::forget(admitted);
            self.ledger.rest(warm);
        }
    }

    /// Waits for a slot, and for a child that rests or a zygote that is asked for one. A zygote that died before it could be
    /// asked did not lose anything: the next one is asked.
    fn admit(&self) -> Result<Admitted<'_>, PoolError> {
        let cancel = self.until.cancel.as_ref();
        let is_wanted = |ticket, turn| cancel.is_none_or(|cancel| cancel.admitted(ticket, turn));
        loop {
            if let Some(cancel) = cancel {
                cancel.begin(self.ledger);
            }
            match self.ledger.admit(self.kind.as_ref(), self.debug_bytes.0, &self.until)? {
                Admission::Warm(warm) => {
                    let (ticket, line) = (warm.ticket, Arc::clone(&warm.line));
                    if !is_wanted(ticket, warm.turn) {
                        self.ledger.rest(warm);
                        return Err(PoolError::Cancelled);
                    }
                    return Ok(Admitted {
                        ledger: self.ledger,
                        ticket,
                        line,
                        last_words: None,
                        warm: Some(warm),
                    });
                }
                Admission::Fresh { ticket, link } => {
                    if !is_wanted(ticket, FIRST_TURN) {
                        let detail = PoolError::Cancelled.to_string();
                        self.ledger.ended(ticket, Fate::NotSpawned { detail });
                        self.ledger.forget(ticket);
                        return Err(PoolError::Cancelled);
                    }
                    if let Some(admitted) = self.make(ticket, &link)? {
                        return Ok(admitted);
                    }
                }
            }
        }
    }

    /// Has the zygote make a child. None if the zygote died before it heard of it.
    fn make(&self, ticket: u64, link: &Link) -> Result<Option<Admitted<'_>>, PoolError> {
        match self.spawn(ticket, link) {
            Ok((line, last_words)) => {
                Ok(Some(Admitted { ledger: self.ledger, ticket, line, last_words, warm: None }))
            }
            Err(error) => {
                // The zygote never heard of this ticket.
                self.ledger.ended(ticket, Fate::NotSpawned { detail: error.to_string() });
                self.ledger.forget(ticket);
                let is_lost = matches!(&error, PoolError::Io { source, .. }
                    if matches!(source.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset));
                if !is_lost {
                    return Err(error);
                }
                self.ledger.lost(link);
                Ok(None)
            }
        }
    }

    /// Asks the zygote for a child; answers with our end of its line, and the reading end of its standard error.
    fn spawn(&self, ticket: u64, link: &Link) -> Result<(Arc<Line>, Option<OwnedFd>), PoolError> {
        let (ours, theirs) = Line::create().map_err(PoolError::io("make a line to a worker"))?;
        let ours = Arc::new(ours);
        self.ledger.connect(ticket, &ours);
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

    fn judge<R: DeserializeOwned>(&self, admitted: &Admitted<'_>, heard: Heard) -> Answer<R> {
        let ends = |verdict| Answer { verdict, stays: false };
        let lost = |detail| ends(Verdict::WorkerLost { detail });
        let content = match heard {
            Heard::Reply(content) => content,
            Heard::TimedOut => return ends(Verdict::DeadlineExceeded),
            Heard::Malformed { detail } => return lost(detail),
            Heard::Closed => {
                let fate = self.ledger.fate(admitted.ticket, Instant::now() + END_WITHIN);
                return ends(meaning(fate.as_ref()));
            }
        };
        let (report, stays) = match frame::decode(&content) {
            Ok(Reply::Done(report)) => (report, false),
            Ok(Reply::Resting(report)) => (report, true),
            Ok(Reply::Failed { detail }) => return lost(detail),
            Ok(Reply::Part(_)) => return lost("it answered with more parts than asked for".to_owned()),
            Err(error) => return lost(error.to_string()),
        };
        if self.compiles {
            // Its output may only be looked at when nobody can change it any more.
            let fate = self.ledger.fate(admitted.ticket, Instant::now() + END_WITHIN);
            if fate != Some(Fate::Ended(End::Exit(0))) {
                return ends(meaning(fate.as_ref()));
            }
        }
        Answer { verdict: Verdict::Done(report), stays }
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
        None => format!("did not end within {} s", END_WITHIN.as_secs()),
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
fn said(mut admitted: Admitted<'_>) -> Option<String> {
    let last_words = admitted.last_words.take()?;
    drop(admitted);
    let mut bytes = Vec::new();
    // The error is the end of what is there now; what was read before it is kept.
    let _ = File::from(last_words).read_to_end(&mut bytes);
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
