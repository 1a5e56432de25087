//! The result of a compile, or its error.

use std::{sync::Arc, time::Duration};

use antares_abi::{ArtifactKey, CodeTier, Sha256Digest};
use antares_pool::{Sealed, job::CompileSummary};
use antares_serve::{Fault, chain};
use bytes::Bytes;

/// An artifact and its origin.
#[derive(Clone, Debug)]
pub struct Artifact {
    pub key: ArtifactKey,
    /// The generator that made it.
    pub tier: CodeTier,
    /// Digest of its hints, if any.
    pub hints: Option<Sha256Digest>,
    /// The shared object, sealed and checked.
    pub library: Arc<Sealed>,
    /// Its signed manifest.
    pub manifest: Bytes,
    /// The compile's summary, if it was compiled now instead of found in the cache.
    pub made: Option<CompileSummary>,
    /// Time charged for its compile now, for all of its workers.
    pub charged: Duration,
    /// Whether it is in the cache.
    pub stored: bool,
}

/// Why there is no artifact. Cloned for all waiting callers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// The script is not stored.
    #[error("script {0} is not stored")]
    ScriptNotFound(Sha256Digest),
    /// The script cannot be compiled, even later.
    #[error("{reason}: {detail}")]
    Refused {
        /// From the closed set of `CompileReport::Refused`, `worker_lost` or `revoked`.
        reason: String,
        /// Problem and location.
        detail: String,
    },
    /// The compile exceeded its time limit.
    #[error("the compile took more than {0} ms")]
    Timeout(u64),
    /// No worker became free in time.
    #[error("no compile worker came free in {0} ms")]
    Busy(u64),
    /// The worker died.
    #[error("the compile worker was lost: {0}")]
    WorkerLost(String),
    /// The sandbox stopped the worker.
    #[error("the compile worker violated the sandbox policy: {0}")]
    Violation(String),
    /// The compiler failed, or its output is not a library of ours.
    #[error("the compiler failed: {0}")]
    Failed(String),
    /// The requesting tenant has used up its quota.
    #[error("{}", .0.message())]
    Quota(Fault),
    /// An internal error outside the compiler; the log has the details.
    #[error("internal error")]
    Internal,
}

impl CompileError {
    /// Whether the same compile may succeed without hints: it has less to do.
    pub(crate) fn may_be_of_hints(&self) -> bool {
        matches!(
            self,
            Self::Refused { .. } | Self::Timeout { .. } | Self::WorkerLost { .. } | Self::Failed { .. }
        )
    }
}

/// An internal error; logs the details.
pub(crate) fn internal(step: &'static str, error: &dyn std::error::Error) -> CompileError {
    tracing::error!(step, error = chain(error), "internal error");
    CompileError::Internal
}
