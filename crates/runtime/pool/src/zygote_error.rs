//! Why a zygote ended.

use std::io;

use antares_sandbox::SandboxError;

/// Why a zygote ended before its supervisor did.
#[derive(Debug, thiserror::Error)]
pub enum ZygoteError {
    /// The arguments are not those of a supervisor.
    #[error(
        "this program is started by an antares service, with a socket as standard input; it has no other use"
    )]
    NotAsked,
    /// The worker could not be prepared.
    #[error("cannot prepare the worker: {0}")]
    Prepare(String),
    /// The process could not enter the sandbox.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// The supervisor sent an invalid request.
    #[error("the supervisor's request is malformed")]
    Request,
    /// A call to the kernel failed.
    #[error("cannot {step}")]
    Io {
        /// The failed operation.
        step: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

impl ZygoteError {
    pub(crate) fn io<E: Into<io::Error>>(step: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::Io { step, source: source.into() }
    }

    /// Whether the error only means that the supervisor has ended.
    pub(crate) fn is_of_the_end(&self) -> bool {
        match self {
            Self::Io { source, .. } => {
                matches!(source.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
            }
            error => matches!(error, Self::Sandbox(SandboxError::ParentGone)),
        }
    }
}
