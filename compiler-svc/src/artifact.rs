//! What a compile gives, or why it gives nothing.

use std::{sync::Arc, time::Duration};

use antares_abi::{ArtifactKey, CodeTier, Sha256Digest};
use antares_pool::{Sealed, job::CompileSummary};
use antares_serve::{Fault, chain};
use bytes::Bytes;

/// An artifact and where it came from.
#[derive(Clone, Debug)]
pub struct Artifact {
    /// Its key.
    pub key: ArtifactKey,
    /// Which generator made it.
    pub tier: CodeTier,
    /// Digest of the hints that it was made with, if there were some.
    pub hints: Option<Sha256Digest>,
    /// The shared object, sealed and checked.
    pub library: Arc<Sealed>,
    /// What was signed about it.
    pub manifest: Bytes,
    /// How it was made, if it was made now and not found in the cache.
    pub made: Option<CompileSummary>,
    /// What its compile was charged for, now: the time of all of its workers.
    pub charged: Duration,
    /// Whether it is in the cache.
    pub stored: bool,
}

/// Why there is no artifact. Cloned to everybody who waited for it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// The script is not stored.
    #[error("script {0} is not stored")]
    ScriptNotFound(Sha256Digest),
    /// The script cannot be compiled, now or later.
    #[error("{reason}: {detail}")]
    Refused {
        /// From the closed set of `CompileReport::Refused`, `worker_lost` or `revoked`.
        reason: String,
        /// What and where.
        detail: String,
    },
    /// The compile took longer than it may.
    #[error("the compile took more than {0} ms")]
    Timeout(u64),
    /// No worker came free in time.
    #[error("no compile worker came free in {0} ms")]
    Busy(u64),
    /// The worker died.
    #[error("the compile worker was lost: {0}")]
    WorkerLost(String),
    /// The worker was stopped by the fence.
    #[error("the compile worker violated the sandbox policy: {0}")]
    Violation(String),
    /// The compiler failed, or what it gave is not a library of ours.
    #[error("the compiler failed: {0}")]
    Failed(String),
    /// The tenant that asked has used up its quota.
    #[error("{}", .0.message())]
    Quota(Fault),
    /// A fault of ours beside the compiler; the log has the particulars.
    #[error("internal error")]
    Internal,
}

impl CompileError {
    /// Whether the same compile without hints may go well: it has less to do.
    pub(crate) fn may_be_of_hints(&self) -> bool {
        matches!(
            self,
            Self::Refused { .. } | Self::Timeout { .. } | Self::WorkerLost { .. } | Self::Failed { .. }
        )
    }
}

/// A fault of ours; the log has what it is.
pub(crate) fn internal(step: &'static str, error: &dyn std::error::Error) -> CompileError {
    tracing::error!(step, error = chain(error), "internal error");
    CompileError::Internal
}
