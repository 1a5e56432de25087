//! A run in progress without a blocked thread: for callers that poll and must not block.

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

/// A run or a verification that an idle worker received. Dropping it ends the worker.
#[derive(Debug)]
pub struct StartedRun<R = RunReport> {
    call: Call,
    lease: Lease,
    exchange: Exchange,
    /// The result, once known.
    heard: Option<Heard>,
    report: PhantomData<fn() -> R>,
}

/// The answer to a kind of job.
pub trait Answers: Sized {
    /// Converts an answer of this kind.
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
    /// Sends the job to the worker; the channel has space for its frame.
    pub(crate) fn new(call: Call, lease: Lease) -> Self {
        let mut exchange = Exchange::new(call.reply_bytes_max);
        let heard = exchange.request(&lease.channel, &call.frame);
        Self { call, lease, exchange, heard, report: PhantomData }
    }

    /// Polls for the answer without sleeping, for `patience`. Returns whether it has arrived.
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
            // The worker may need this processor.
            std::thread::yield_now();
        }
    }

    /// Waits for the answer. `None` if the worker died before it read the job, or does not read it: run the
    /// job again.
    ///
    /// # Errors
    /// Those of [`crate::Pool::run`].
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
