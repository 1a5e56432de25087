//! How jobs ended, and why there is no verdict.

use std::time::Duration;

use antares_abi::Sha256Digest;
use antares_pool::{
    PoolError,
    job::{GroupReport, RunReport, VerifyOutcome},
};
use antares_serve::Fault;
pub(crate) use antares_serve::Found;

use crate::{
    artifacts::native::Origin,
    diagnosis::Diagnosed,
    source::{Fallback, SourceError},
};

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ended<R = RunReport> {
    /// The worker reported.
    Reported(R),
    /// It exceeded its wall time.
    DeadlineExceeded,
    /// It violated the sandbox policy.
    SandboxViolation { detail: String },
}

/// An execution that ended.
#[derive(Clone, Debug)]
pub(crate) struct Execution {
    pub(crate) script: Sha256Digest,
    pub(crate) ended: Ended,
    pub(crate) native: Option<Origin>,
    pub(crate) fallback: Option<Fallback>,
    pub(crate) fetch: Duration,
    /// Waiting for a worker, and the transfers to it and back.
    pub(crate) queue: Duration,
    /// From its arrival to its end.
    pub(crate) wall: Duration,
    /// As in the job; none if runs are not sampled.
    pub(crate) sample_salt: Option<u64>,
    pub(crate) recheck: Option<Found>,
    pub(crate) diagnosis: Option<Diagnosed>,
}

/// Why there is no verdict.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExecuteError {
    #[error("the deadline of the call passed")]
    CallDeadline,
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error("no run worker came free in time")]
    Busy,
    #[error("as many calls wait for a run worker as may")]
    QueueFull,
    #[error("the run worker was lost: {detail}")]
    WorkerLost { detail: String },
    #[error("internal error")]
    FalseReport { detail: String },
    #[error("the transaction cannot be used: {problem}")]
    Transaction { field: String, problem: String },
    #[error("{}", .0.message())]
    Quota(Fault),
    #[error(transparent)]
    Pool(PoolError),
    #[error("internal error")]
    Internal,
}

/// A worker's report on a transaction.
#[derive(Clone, Debug)]
pub(crate) struct Verified {
    pub(crate) outcome: VerifyOutcome,
    pub(crate) cycles: u64,
    pub(crate) groups: Vec<GroupReport>,
    pub(crate) read_us: u64,
    pub(crate) run_us: u64,
}
