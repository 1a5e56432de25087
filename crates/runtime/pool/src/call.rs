//! The path of a job through a pool: slot, worker, exchange.

use std::{
    io::ErrorKind,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
    time::{Duration, Instant},
};

use antares_sandbox::EXTRA_FDS_MAX;
use rustix::pipe::{PipeFlags, pipe_with};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    PoolError, Until, Verdict,
    channel::Channel,
    checks::{Checked, Judged, Known, Progress},
    child::Reply,
    exchange::{Heard, exchange},
    frame::{self, FrameError, JOB_BYTES_MAX},
    ledger::{Admission, FIRST_TURN, Fate, Ledger, Link},
    reuse::{Kind, Warm},
    ring::RING_BYTES,
    started::{Answers, StartedRun},
    wire::{self, Spawn},
};

/// Maximum time for an idle worker to start reading a job. Workers do so at once, unless the machine hangs.
const TAKEN_WITHIN: Duration = Duration::from_secs(1);

/// A job: the worker's request, and the part of the answers that belongs to the caller.
pub(crate) trait Job {
    /// The answers of workers of this kind, for all jobs.
    type Reply: DeserializeOwned + Judged;
    /// The answer to this job.
    type Report;
    /// Whether to retain the worker's standard error, and to wait for its end.
    const COMPILES: bool = false;

    /// The message to the worker.
    fn message(&self) -> impl Serialize;

    /// Maximum bytes of debug output in the answer.
    fn debug_bytes_max(&self) -> u64;

    /// Maximum bytes of the answer and its parts.
    fn reply_bytes_max(&self) -> usize;

    /// The answer, if it belongs to this job.
    fn report(&self, reply: Self::Reply) -> Option<Self::Report>;
}

/// A job with its limits.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) ledger: Arc<Ledger>,
    /// The encoded job.
    pub(crate) frame: Vec<u8>,
    /// See [`Job::COMPILES`].
    pub(crate) compiles: bool,
    pub(crate) reply_bytes_max: usize,
    pub(crate) debug_bytes_max: u64,
    /// Facts to check reports against.
    pub(crate) known: Known,
    pub(crate) until: Until,
    /// Properties that jobs must share to share a worker; `None` if this job may not share one.
    pub(crate) kind: Option<Kind>,
}

/// A worker during one job. Dropping it kills the worker, unless the worker is idle.
#[derive(Debug)]
pub(crate) struct Lease {
    ledger: Arc<Ledger>,
    pub(crate) ticket: u64,
    pub(crate) channel: Arc<Channel>,
    pub(crate) last_words: Option<OwnedFd>,
    /// Its previous state, if it has done a job before.
    pub(crate) warm: Option<Warm>,
    /// Whether the worker is idle and stays alive.
    pub(crate) rests: bool,
    /// Start time of the job.
    pub(crate) since: Instant,
    /// Start position of the job in the channel.
    pub(crate) place: u32,
}

/// The parts of an answer that arrived before its end.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) progress: Progress,
    /// Whether all of them were clean.
    pub(crate) are_clean: bool,
}

impl Default for Parts {
    fn default() -> Self {
        Self { progress: Progress::default(), are_clean: true }
    }
}

impl Parts {
    fn add<R: Judged>(&mut self, part: &R) {
        self.progress = self.progress.and(part);
        self.are_clean &= part.is_clean();
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if !self.rests {
            self.ledger.forget(self.ticket);
        }
    }
}

impl Lease {
    /// Leases the worker at the other end of `channel`; its job starts now.
    fn new(
        ledger: &Arc<Ledger>,
        ticket: u64,
        channel: Arc<Channel>,
        last_words: Option<OwnedFd>,
        warm: Option<Warm>,
    ) -> Self {
        let (ledger, since, place) = (Arc::clone(ledger), Instant::now(), channel.position());
        Self { ledger, ticket, channel, last_words, warm, rests: false, since, place }
    }

    /// Deadline for starting to read the job, if the worker was idle.
    pub(crate) fn taken_by(&self) -> Option<Instant> {
        self.warm.is_some().then(|| self.since + TAKEN_WITHIN)
    }

    /// Whether the worker died before it started to read the job, or does not read it.
    pub(crate) fn did_not_hear(&self, heard: &Heard) -> bool {
        matches!(heard, Heard::Closed | Heard::NotTaken) && self.channel.is_untouched_since(self.place)
    }
}

impl Call {
    /// Creates a call of `job` with the facts `known`. It may share a worker with others of its `kind`.
    pub(crate) fn new<J: Job>(
        job: &J,
        known: Known,
        ledger: &Arc<Ledger>,
        kind: Option<Kind>,
        until: Until,
    ) -> Result<Self, PoolError> {
        let frame = frame::encode(&job.message(), JOB_BYTES_MAX).map_err(|error| match error {
            FrameError::TooLarge { bytes, bytes_max } => PoolError::JobTooLarge { bytes, bytes_max },
            other => PoolError::Io { step: "encode a job", source: std::io::Error::other(other) },
        })?;
        Ok(Self {
            ledger: Arc::clone(ledger),
            frame,
            compiles: J::COMPILES,
            reply_bytes_max: job.reply_bytes_max(),
            debug_bytes_max: job.debug_bytes_max(),
            known,
            until,
            kind,
        })
    }

    /// Runs the job in a worker, which gets `files`: the ELF, then at most `EXTRA_FDS_MAX` others. `take`
    /// receives the parts of the answer.
    pub(crate) fn run<R: DeserializeOwned + Judged>(
        &self,
        files: &[BorrowedFd<'_>],
        mut take: impl FnMut(R),
    ) -> Result<Verdict<R>, PoolError> {
        let mut parts = Parts::default();
        // A new worker may die before reading its job because of a defect, so retry only once; an idle worker
        // has worked before.
        let mut may_lose_new = true;
        loop {
            let lease = self.admit(files)?;
            let times = (self.until.deadline, lease.taken_by());
            let mut take_part = |content: &[u8]| match frame::decode(content) {
                Ok(Reply::Part(part)) if self.check::<R>(&part, &parts.progress, lease.since).is_ok() => {
                    parts.add(&part);
                    take(part);
                    true
                }
                _ => false,
            };
            let heard = exchange(&lease.channel, &self.frame, self.reply_bytes_max, times, &mut take_part);
            let is_new = lease.warm.is_none();
            let is_lost = lease.did_not_hear(&heard) && (!is_new || may_lose_new);
            may_lose_new &= !is_new;
            if !is_lost {
                return self.conclude(lease, heard, &parts);
            }
        }
    }

    /// Checks whether `report` can be true for a worker that received the job at `since`.
    pub(crate) fn check<R: Judged>(&self, report: &R, before: &Progress, since: Instant) -> Checked {
        if report.talks_too_much(self.debug_bytes_max) {
            return Err("more debug output than it may have");
        }
        report.check_time(before, since.elapsed())?;
        report.check(&self.known, before)
    }

    /// Passes a short job to an idle worker, if there is one, without waiting for the answer.
    pub(crate) fn begin<R: Answers>(self) -> Result<Option<StartedRun<R>>, PoolError> {
        if self.frame.len() > RING_BYTES {
            return Ok(None);
        }
        let kind = self.kind.as_ref();
        let Some(warm) = kind.and_then(|kind| self.ledger.try_wake(kind, self.debug_bytes_max)) else {
            return Ok(None);
        };
        if let Some(cancel) = &self.until.cancel {
            cancel.begin(Arc::clone(&self.ledger) as _);
        }
        let lease = self.woken(warm)?;
        Ok(Some(StartedRun::new(self, lease)))
    }

    /// Leases an idle worker, unless the job was cancelled.
    fn woken(&self, warm: Warm) -> Result<Lease, PoolError> {
        let (ticket, channel) = (warm.ticket, Arc::clone(&warm.channel));
        if !self.is_wanted(ticket, warm.turn) {
            self.ledger.idle(warm);
            return Err(PoolError::Cancelled);
        }
        Ok(Lease::new(&self.ledger, ticket, channel, None, Some(warm)))
    }

    fn is_wanted(&self, ticket: u64, turn: u64) -> bool {
        self.until.cancel.as_ref().is_none_or(|cancel| cancel.admitted(ticket, turn))
    }

    /// Waits for a slot, and for an idle worker or a zygote that forks one. If the zygote died before the
    /// request, tries the next one.
    fn admit(&self, files: &[BorrowedFd<'_>]) -> Result<Lease, PoolError> {
        loop {
            if let Some(cancel) = &self.until.cancel {
                cancel.begin(Arc::clone(&self.ledger) as _);
            }
            match self.ledger.admit(self.kind.as_ref(), self.debug_bytes_max, &self.until)? {
                Admission::Warm(warm) => return self.woken(warm),
                Admission::Fresh { ticket, link } => {
                    if !self.is_wanted(ticket, FIRST_TURN) {
                        let detail = PoolError::Cancelled.to_string();
                        self.ledger.ended(ticket, Fate::NotSpawned { detail });
                        self.ledger.forget(ticket);
                        return Err(PoolError::Cancelled);
                    }
                    if let Some(lease) = self.make(ticket, &link, files)? {
                        return Ok(lease);
                    }
                }
            }
        }
    }

    /// Requests a worker from the zygote. `None` if the zygote died before it received the request.
    fn make(&self, ticket: u64, link: &Link, files: &[BorrowedFd<'_>]) -> Result<Option<Lease>, PoolError> {
        match self.spawn(ticket, link, files) {
            Ok((channel, last_words)) => {
                self.ledger.wait_for_group(ticket, self.until.deadline);
                Ok(Some(Lease::new(&self.ledger, ticket, channel, last_words, None)))
            }
            Err(error) => {
                // The zygote did not receive this ticket.
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

    /// Requests a worker from the zygote; returns the supervisor's end of its channel, and the reading end of
    /// its standard error.
    fn spawn(
        &self,
        ticket: u64,
        link: &Link,
        files: &[BorrowedFd<'_>],
    ) -> Result<(Arc<Channel>, Option<OwnedFd>), PoolError> {
        let (ours, theirs) = Channel::create().map_err(PoolError::io("make a line to a worker"))?;
        let ours = Arc::new(ours);
        self.ledger.connect(ticket, &ours);
        let (last_words, stderr) = if self.compiles {
            let pipe = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK);
            let (reader, writer) = pipe.map_err(PoolError::io("make a pipe for a worker"))?;
            (Some(reader), Some(writer))
        } else {
            (None, None)
        };
        let extras = files.len().saturating_sub(1);
        let extras = u8::try_from(extras).ok().filter(|count| usize::from(*count) <= EXTRA_FDS_MAX);
        let extras = extras.ok_or(PoolError::TooManyFiles { most: EXTRA_FDS_MAX })?;
        let spawn = Spawn { ticket, extras, has_stderr: stderr.is_some() };
        let mut fds = vec![theirs.as_fd()];
        fds.extend(files);
        fds.extend(stderr.as_ref().map(AsFd::as_fd));
        wire::send(link.socket.as_fd(), &spawn, &fds).map_err(PoolError::io("ask for a worker"))?;
        Ok((ours, last_words))
    }
}
