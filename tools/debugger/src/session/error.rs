//! Why a debugger cannot go on.

use antares_verifier::VerifyError;

/// Why a debugger cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum DebugError {
    /// There is no such group.
    #[error(transparent)]
    Prepare(#[from] VerifyError),
    /// The script cannot start.
    #[error("the script cannot begin: {0}")]
    NotBegun(String),
    /// The run exceeds the recorder's limits.
    #[error("the run has more than {0}, which is what can be recorded")]
    TooLong(&'static str),
    /// A recreated moment differs from the recorded one: a bug.
    #[error("a run made again is another one: {0}")]
    Diverged(String),
}
