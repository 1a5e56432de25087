//! One job's way through a pool: slot, child, conversation.

use std::{
    io::ErrorKind,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

use antares_sandbox::EXTRA_FDS_MAX;
use rustix::pipe::{PipeFlags, pipe_with};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    PoolError, Verdict,
    begun::Begun,
    child::Reply,
    frame::{self, FrameError, JOB_BYTES_MAX},
    ledger::{Admission, FIRST_TURN, Fate, Link},
    line::{Line, RING_BYTES},
    reuse::Warm,
    talk::{Handover, converse},
    terms::{Admitted, Given, Judged, Terms},
    wire::{self, Spawn},
};

/// A job to be done, without the job itself.
pub(crate) struct Errand<'a> {
    pub(crate) terms: Terms,
    pub(crate) elf: BorrowedFd<'a>,
    /// At most `EXTRA_FDS_MAX`.
    pub(crate) extras: Vec<BorrowedFd<'a>>,
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
        let job = encode(job)?;
        let (mut runs, mut is_clean) = (0_u64, true);
        let mut take_part = |content: &[u8]| match frame::decode(content) {
            Ok(Reply::Part(part))
                if runs < parts_max as u64 && !R::talks_too_much(&part, self.terms.debug_bytes.0) =>
            {
                runs += 1;
                is_clean &= R::is_clean(&part);
                take(part);
                true
            }
            _ => false,
        };
        // A new child that dies before it hears of its job may do so because of what it is; one that waited was well once.
        let mut may_lose_new = true;
        loop {
            let admitted = self.admit()?;
            let given = Given::to(&admitted);
            let (bytes_max, deadline) = (self.terms.reply_bytes_max, self.terms.until.deadline);
            let is_new = admitted.warm.is_none();
            let handover = (!is_new).then(|| Handover::begin(&admitted.line));
            let heard = converse(&admitted.line, &job, bytes_max, deadline, handover, &mut take_part);
            let is_lost = given.was_not_heard(&admitted, &heard) && (!is_new || may_lose_new);
            may_lose_new &= !is_new;
            if !is_lost {
                return self.terms.conclude(admitted, given, heard, (runs, is_clean));
            }
        }
    }

    /// Gives `job`, which must be short, to a child that rests, if there is one, and does not wait for its answer.
    pub(crate) fn begin<J: Serialize>(self, job: &J) -> Result<Option<Begun>, PoolError> {
        let job = encode(job)?;
        if job.len() > RING_BYTES {
            return Ok(None);
        }
        let Some(warm) = self
            .terms
            .kind
            .as_ref()
            .and_then(|kind| self.terms.ledger.try_wake(kind, self.terms.debug_bytes.0))
        else {
            return Ok(None);
        };
        if let Some(cancel) = &self.terms.until.cancel {
            cancel.begin(&self.terms.ledger);
        }
        let admitted = self.woken(warm)?;
        let given = Given::to(&admitted);
        Ok(Some(Begun::new(self.terms, admitted, given, &job)))
    }

    /// A child that was woken, if the job is still wanted.
    fn woken(&self, warm: Warm) -> Result<Admitted, PoolError> {
        let (ticket, line) = (warm.ticket, Arc::clone(&warm.line));
        if !self.is_wanted(ticket, warm.turn) {
            self.terms.ledger.rest(warm);
            return Err(PoolError::Cancelled);
        }
        let ledger = Arc::clone(&self.terms.ledger);
        Ok(Admitted { ledger, ticket, line, last_words: None, warm: Some(warm), rests: false })
    }

    fn is_wanted(&self, ticket: u64, turn: u64) -> bool {
        self.terms.until.cancel.as_ref().is_none_or(|cancel| cancel.admitted(ticket, turn))
    }

    /// Waits for a slot, and for a child that rests or a zygote that is asked for one. A zygote that died before it could be
    /// asked did not lose anything: the next one is asked.
    fn admit(&self) -> Result<Admitted, PoolError> {
        let Terms { ledger, until, kind, debug_bytes, .. } = &self.terms;
        loop {
            if let Some(cancel) = &until.cancel {
                cancel.begin(ledger);
            }
            match ledger.admit(kind.as_ref(), debug_bytes.0, until)? {
                Admission::Warm(warm) => return self.woken(warm),
                Admission::Fresh { ticket, link } => {
                    if !self.is_wanted(ticket, FIRST_TURN) {
                        let detail = PoolError::Cancelled.to_string();
                        ledger.ended(ticket, Fate::NotSpawned { detail });
                        ledger.forget(ticket);
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
    fn make(&self, ticket: u64, link: &Link) -> Result<Option<Admitted>, PoolError> {
        match self.spawn(ticket, link) {
            Ok((line, last_words)) => {
                let ledger = Arc::clone(&self.terms.ledger);
                ledger.wait_for_group(ticket, self.terms.until.deadline);
                Ok(Some(Admitted { ledger, ticket, line, last_words, warm: None, rests: false }))
            }
            Err(error) => {
                // The zygote never heard of this ticket.
                self.terms.ledger.ended(ticket, Fate::NotSpawned { detail: error.to_string() });
                self.terms.ledger.forget(ticket);
                let is_lost = matches!(&error, PoolError::Io { source, .. }
                    if matches!(source.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset));
                if !is_lost {
                    return Err(error);
                }
                self.terms.ledger.lost(link);
                Ok(None)
            }
        }
    }

    /// Asks the zygote for a child; answers with our end of its line, and the reading end of its standard error.
    fn spawn(&self, ticket: u64, link: &Link) -> Result<(Arc<Line>, Option<OwnedFd>), PoolError> {
        let (ours, theirs) = Line::create().map_err(PoolError::io("make a line to a worker"))?;
        let ours = Arc::new(ours);
        self.terms.ledger.connect(ticket, &ours);
        let (last_words, stderr) = if self.terms.compiles {
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
}

fn encode<J: Serialize>(job: &J) -> Result<Vec<u8>, PoolError> {
    frame::encode(job, JOB_BYTES_MAX).map_err(|error| match error {
        FrameError::TooLarge { bytes, bytes_max } => PoolError::JobTooLarge { bytes, bytes_max },
        other => PoolError::Io { step: "encode a job", source: std::io::Error::other(other) },
    })
}
