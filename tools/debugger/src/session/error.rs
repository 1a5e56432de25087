//! Why a debugger cannot go on.

use antares_verifier::VerifyError;

/// Why a debugger cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum DebugError {
    /// There is no such group.
    #[error(transparent)]
    Prepare(#[from] VerifyError),
    /// Its script cannot begin.
    #[error("the script cannot begin: {0}")]
    NotBegun(String),
    /// The run is too long to be kept.
    #[error("the run has more than {0}, which is what can be recorded")]
    TooLong(&'static str),
    /// A moment that was made again is not what it was. A mistake of ours.
    #[error("a run made again is another one: {0}")]
    Diverged(String),
}
