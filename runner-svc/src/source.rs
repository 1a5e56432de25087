//! Where scripts and artifacts come from: a compiler in this process or one behind gRPC.

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

/// A shared object as its source gives it.
#[derive(Clone, Debug)]
pub enum FetchedLibrary {
    /// As another process has sent it. Nothing is believed before it is sealed and checked.
    Sent {
        /// Its bytes.
        bytes: Bytes,
        /// Digest that they must have.
        sha256: Sha256Digest,
    },
    /// Sealed and checked by a compiler in this process.
    Checked(Arc<Sealed>),
}

/// An artifact as its source gives it.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// Key under which the source has it.
    pub key: ArtifactKey,
    /// Which generator made it.
    pub tier: CodeTier,
    /// Digest of the hints that it was made with, if there were some.
    pub hints: Option<Sha256Digest>,
    /// The shared object.
    pub library: FetchedLibrary,
    /// What its compiler has signed about it.
    pub manifest: Bytes,
    /// Wall time of its compile, milliseconds, if it was compiled now.
    pub made_ms: Option<u64>,
}

/// The artifact that is wanted.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Digest of the script.
    pub script: Sha256Digest,
    /// VM version and ISA.
    pub options: CompileOptions,
    /// The script's bytes, where they are at hand: then the source need not have them.
    pub elf: Option<Bytes>,
    /// An artifact of it that is at hand already.
    pub known: Option<ArtifactKey>,
    /// Only what is stored is wanted, no compile.
    pub is_stored: bool,
}

impl Wanted {
    /// The best artifact of `script`, of which nothing is at hand.
    pub(crate) fn best(script: Sha256Digest, options: CompileOptions, elf: Option<Bytes>) -> Self {
        Self { script, options, elf, known: None, is_stored: false }
    }
}

/// Why a script or an artifact could not be had. Cloned to everybody who waited for it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SourceError {
    /// The source has no such script.
    #[error("script {0} is not stored")]
    ScriptNotFound(Sha256Digest),
    /// The source says no; `status` is its answer, fit to be handed on.
    #[error("{}", status.message())]
    NoArtifact {
        /// What kind of no.
        why: Fallback,
        /// The source's own words, with details.
        status: Box<Status>,
    },
    /// The source cannot be reached, or stopped in the middle.
    #[error("the compiler service cannot be reached: {0}")]
    Unavailable(String),
    /// The source makes artifacts of another version than this runner takes.
    #[error("the compiler service has key {found} for what is {expected} here: it is of another version")]
    OtherVersion {
        /// Key that this runner expects.
        expected: ArtifactKey,
        /// Key that the source gave.
        found: ArtifactKey,
    },
    /// What came is not what was asked for, or not a library of ours.
    #[error("what the compiler service sent is invalid: {0}")]
    Corrupt(String),
    /// The script's native code made a worker break a rule of the fence.
    #[error("native code {0} is in quarantine: a worker that ran it violated the sandbox policy")]
    Quarantined(ArtifactKey),
    /// A fault of ours; the log has the particulars.
    #[error("internal error")]
    Internal,
}

/// Why a run that might have had native code had none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Fallback {
    /// The compiler refuses the script.
    CompileRefused,
    /// The compile took too long.
    CompileTimeout,
    /// The compiler failed, its worker was lost, or what it gave is of no use.
    CompileFailed,
    /// The compiler service cannot be reached.
    SourceUnavailable,
    /// No compile worker came free.
    WorkersBusy,
    /// The tenant has used up its quota of compiles.
    Quota,
    /// The call's deadline leaves no time to wait for a compile.
    Deadline,
    /// A worker that ran the script's native code violated the sandbox policy.
    Quarantined,
    /// The last runs left the script's native code before their end, and began again.
    LeavesEarly,
    /// The interpreter, which began meanwhile, was done before the first compile.
    Compiling,
}

impl SourceError {
    /// Why a run goes on without native code after this error; none if it cannot go on at all.
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
    /// The same for the calls of `account`.
    fn of(&self, account: &Account) -> Arc<dyn ArtifactSource>;

    /// The bytes of a stored script. The caller checks them.
    ///
    /// # Errors
    /// It is not stored, or the source cannot be reached.
    async fn script(&self, digest: Sha256Digest) -> Result<Bytes, SourceError>;

    /// Whose native code is taken; none where everything that the source gives is.
    fn trust(&self) -> Option<Arc<Trust>>;

    /// The best artifact of a script that there is at once, compiled if need be; none if that is the one that
    /// is at hand, or if only a stored one is wanted and there is none. The caller checks it.
    ///
    /// # Errors
    /// There is none.
    async fn artifact(&self, wanted: Wanted) -> Result<Option<Fetched>, SourceError>;

    /// Tells what a run of a script has seen. Gives the digest of the hints that the next artifact is made
    /// with.
    ///
    /// # Errors
    /// It is not stored, or the source cannot be reached.
    async fn learn(
        &self,
        script: Sha256Digest,
        options: CompileOptions,
        seen: Seen,
    ) -> Result<Option<Sha256Digest>, SourceError>;
}
