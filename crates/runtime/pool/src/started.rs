//! A run that a worker is at while nobody sleeps for it: for callers that may look, and must not block.

use std::{
    marker::PhantomData,
    time::{Duration, Instant},
};

use crate::{
    PoolError, Verdict,
    call::{Call, Lease, Parts},
    exchange::{Exchange, Heard},
    job::{RunReport, RunWorkerReport, VerifyReport},
};

/// A run or a verification that was given to a worker which waited for it. Dropping it ends the worker.
#[derive(Debug)]
pub struct StartedRun<R = RunReport> {
    call: Call,
    lease: Lease,
    exchange: Exchange,
    /// What was heard, once something was.
    heard: Option<Heard>,
    report: PhantomData<fn() -> R>,
}

/// What answers a job of a kind.
pub trait Answers: Sized {
    /// The answer, if it is of this kind.
    fn of(report: RunWorkerReport) -> Option<Self>;
}

impl Answers for RunReport {
    fn of(report: RunWorkerReport) -> Option<Self> {
        report.into_run()
    }
}

impl Answers for VerifyReport {
    fn of(report: RunWorkerReport) -> Option<Self> {
        match report {
            RunWorkerReport::Verify(report) => Some(report),
            _ => None,
        }
    }
}

impl<R: Answers> StartedRun<R> {
    /// Gives the job, a frame for which there is room, to the worker.
    pub(crate) fn new(call: Call, lease: Lease) -> Self {
        let mut exchange = Exchange::new(call.reply_bytes_max);
        let heard = exchange.request(&lease.channel, &call.frame);
        Self { call, lease, exchange, heard, report: PhantomData }
    }

    /// Looks for the answer, without sleeping, for `patience`. Whether it is there.
    pub fn poll(&mut self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        loop {
            if self.heard.is_none() {
                self.heard = self.exchange.hear(&self.lease.channel, &mut |_| false);
            }
            if self.heard.is_some() {
                return true;
            }
            if Instant::now() >= until {
                return false;
            }
            // The worker may be waiting for this very processor.
            std::thread::yield_now();
        }
    }

    /// Waits for the answer. None if the worker had died before it heard of the run, or does not read it;
    /// then it is to be run anew.
    ///
    /// # Errors
    /// As [`crate::Pool::run`].
    pub fn wait(self) -> Result<Option<Verdict<R>>, PoolError> {
        let Self { call, lease, mut exchange, heard, .. } = self;
        let taken = (lease.place, lease.taken_by());
        let wait = || exchange.finish(&lease.channel, &[], taken, call.until.deadline, |_| false);
        let heard = heard.unwrap_or_else(wait);
        if lease.did_not_hear(&heard) {
            return Ok(None);
        }
        Ok(Some(call.conclude(lease, heard, &Parts::default())?.part(R::of)))
    }
}
