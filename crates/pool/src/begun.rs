//! A job that a child works at while nobody sleeps for it: for callers that may look, and must not block.

use std::time::{Duration, Instant};

use crate::{
    PoolError, Verdict,
    job::{RunReport, RunWorkerReport},
    line::BYTES,
    talk::{Handover, Heard, Talk},
    terms::{Admitted, Given, Terms},
};

/// A run that was given to a child which waited for it. Dropping it ends the child.
#[derive(Debug)]
pub struct Begun {
    terms: Terms,
    /// The child, until the run is concluded.
    admitted: Option<Admitted>,
    given: Given,
    handover: Handover,
    talk: Talk,
    /// What was heard, once something was.
    heard: Option<Heard>,
}

impl Begun {
    /// Gives `job`, a frame for which there is room, to the child.
    pub(crate) fn new(terms: Terms, admitted: Admitted, given: Given, job: &[u8]) -> Self {
        let mut talk = Talk::new(terms.reply_bytes_max);
        let handover = Handover::begin(&admitted.line);
        let heard = talk.ask(&admitted.line, job);
        Self { terms, admitted: Some(admitted), given, handover, talk, heard }
    }

    /// Looks for the answer, without sleeping, for `patience`. Whether it is there.
    pub fn look(&mut self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        while self.hear().is_none() {
            if Instant::now() >= until {
                return false;
            }
            // The child may be waiting for this very processor.
            std::thread::yield_now();
        }
        true
    }

    fn hear(&mut self) -> Option<&Heard> {
        if self.heard.is_none()
            && let Some(admitted) = &self.admitted
        {
            self.heard = self.talk.hear(&admitted.line, &mut |_| false);
        }
        self.heard.as_ref()
    }

    /// Waits for the answer. None if the child had died before it heard of the run, or does not read it; then it is to be run
    /// anew.
    ///
    /// # Errors
    /// As [`crate::Pool::run`].
    pub fn wait(mut self) -> Result<Option<Verdict<RunReport>>, PoolError> {
        let mut is_late = false;
        let Some(admitted) = self.admitted.take() else { return Ok(None) };
        let heard = loop {
            if let Some(heard) = self.heard.take() {
                break heard;
            }
            self.heard = self.talk.hear(&admitted.line, &mut |_| false);
            if self.heard.is_none() && is_late {
                break Heard::TimedOut;
            }
            if self.heard.is_some() {
                continue;
            }
            let deadline = self.terms.until.deadline;
            match self.handover.pending(&admitted.line).filter(|by| *by < deadline) {
                Some(by) if Instant::now() >= by => break Heard::NotTaken,
                Some(by) => drop(admitted.line.wait(BYTES, Some(by))),
                None => is_late = !admitted.line.wait(BYTES, Some(deadline)),
            }
        };
        if self.given.was_not_heard(&admitted, &heard) {
            return Ok(None);
        }
        let verdict = self.terms.conclude(admitted, self.given, heard, (0, true))?;
        self.terms.ledger.expect_answer(verdict, RunWorkerReport::into_run).map(Some)
    }
}
