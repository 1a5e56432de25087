//! Sources of scripts and artifacts: a compiler in this process or one behind gRPC.

pub(crate) mod compilers;
#[cfg(feature = "embedded")]
pub(crate) mod local;
pub(crate) mod remote;

use std::sync::Arc;

use antares_abi::{ArtifactKey, CodeTier, CompileOptions, Seen, Sha256Digest};
use antares_pool::Sealed;
use antares_serve::Account;
use antares_trust::Trust;
use bytes::Bytes;
use strum::{IntoStaticStr, VariantNames};
use tonic::{Status, async_trait};

/// A shared object from its source.
#[derive(Clone, Debug)]
pub enum FetchedLibrary {
    /// From another process. Untrusted until it is sealed and checked.
    Sent {
        bytes: Bytes,
        /// Its expected digest.
        sha256: Sha256Digest,
    },
    /// Sealed and checked by a compiler in this process.
    Checked(Arc<Sealed>),
}

/// An artifact from its source.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// Its key at the source.
    pub key: ArtifactKey,
    /// The generator that made it.
    pub tier: CodeTier,
    /// Digest of its hints, if any.
    pub hints: Option<Sha256Digest>,
    pub library: FetchedLibrary,
    /// The compiler's signed statement about it.
    pub manifest: Bytes,
    /// Wall time of its compile in milliseconds, if it was compiled now.
    pub made_ms: Option<u64>,
}

/// A requested artifact.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub script: Sha256Digest,
    /// VM version and ISA.
    pub options: CompileOptions,
    /// The script's bytes, if available: then the source need not have them.
    pub elf: Option<Bytes>,
    /// An artifact of it that is already cached.
    pub known: Option<ArtifactKey>,
    /// Requests only a stored artifact, no compile.
    pub is_stored: bool,
}

impl Wanted {
    /// The best artifact of `script`, with none cached.
    pub(crate) fn best(script: Sha256Digest, options: CompileOptions, elf: Option<Bytes>) -> Self {
        Self { script, options, elf, known: None, is_stored: false }
    }
}

/// Why a script or an artifact is unavailable. Cloned for all waiting callers.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SourceError {
    /// The source has no such script.
    #[error("script {0} is not stored")]
    ScriptNotFound(Sha256Digest),
    /// The source refuses; `status` is its answer, fit for callers.
    #[error("{}", status.message())]
    NoArtifact {
        /// Kind of refusal.
        why: Fallback,
        /// The source's own status, with details.
        status: Box<Status>,
    },
    /// The source is unreachable, or stopped midway.
    #[error("the compiler service cannot be reached: {0}")]
    Unavailable(String),
    /// The source makes artifacts of a version that this runner does not accept.
    #[error("the compiler service has key {found} for what is {expected} here: it is of another version")]
    OtherVersion {
        /// Key that this runner expects.
        expected: ArtifactKey,
        /// Key that the source gave.
        found: ArtifactKey,
    },
    /// The artifact does not match the request, or is not a library of ours.
    #[error("what the compiler service sent is invalid: {0}")]
    Corrupt(String),
    /// A worker broke a sandbox rule while running the script's native code.
    #[error("native code {0} is in quarantine: a worker that ran it violated the sandbox policy")]
    Quarantined(ArtifactKey),
    /// An internal error; the log has the details.
    #[error("internal error")]
    Internal,
}

/// Why a run went without native code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Fallback {
    /// The compiler refuses the script.
    CompileRefused,
    /// The compile took too long.
    CompileTimeout,
    /// The compiler failed, its worker was lost, or its artifact is invalid.
    CompileFailed,
    /// The compiler service is unreachable.
    SourceUnavailable,
    /// No compile worker became free.
    WorkersBusy,
    /// The tenant has used up its quota of compiles.
    Quota,
    /// The call's deadline leaves no time to wait for a compile.
    Deadline,
    /// A worker that ran the script's native code violated the sandbox policy.
    Quarantined,
    /// The script's native code bailed out of the last runs, which restarted.
    LeavesEarly,
    /// The interpreter finished before the first compile.
    Compiling,
}

impl SourceError {
    /// Why a run goes on without native code after this error; none if it cannot go on.
    pub(crate) fn fallback(&self) -> Option<Fallback> {
        match self {
            Self::ScriptNotFound(_) | Self::Internal => None,
            Self::NoArtifact { why, .. } => Some(*why),
            Self::Quarantined { .. } => Some(Fallback::Quarantined),
            Self::Unavailable { .. } => Some(Fallback::SourceUnavailable),
            Self::OtherVersion { .. } | Self::Corrupt { .. } => Some(Fallback::CompileFailed),
        }
    }
}

/// A source of scripts and artifacts.
#[async_trait]
pub trait ArtifactSource: Send + Sync + 'static {
    /// The same source, for calls of `account`.
    fn of(&self, account: &Account) -> Arc<dyn ArtifactSource>;

    /// The bytes of a stored script. The caller checks them.
    ///
    /// # Errors
    /// It is not stored, or the source is unreachable.
    async fn script(&self, digest: Sha256Digest) -> Result<Bytes, SourceError>;

    /// Trusted signers of native code; none if everything from this source is trusted.
    fn trust(&self) -> Option<Arc<Trust>>;

    /// The best artifact of a script that is available at once, compiled if needed. None if that is already
    /// cached, or if only a stored one is wanted and none is. The caller checks it.
    ///
    /// # Errors
    /// No artifact is available.
    async fn artifact(&self, wanted: Wanted) -> Result<Option<Fetched>, SourceError>;

    /// Reports what a run of a script saw. Returns the digest of the hints for the next artifact.
    ///
    /// # Errors
    /// The script is not stored, or the source is unreachable.
    async fn learn(
        &self,
        script: Sha256Digest,
        options: CompileOptions,
        seen: Seen,
    ) -> Result<Option<Sha256Digest>, SourceError>;
}
