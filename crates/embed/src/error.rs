//! Errors of the crate. How a script ends is never an error.

/// An error outside of the script.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The ELF can never be compiled.
    #[error("the script cannot be compiled: {reason}: {detail}")]
    Refused {
        /// `elf`, `options`, `limit_code_bytes`, `limit_functions`, `limit_blocks` or `limit_operations`.
        reason: &'static str,
        /// What is wrong, and where.
        detail: String,
    },
    /// The compiler failed.
    #[error("the compiler failed: {0}")]
    Compiler(String),
    /// Native code from elsewhere is refused.
    #[error("the artifact is refused: {0}")]
    Artifact(String),
    /// The keys cannot be read.
    #[error("the keys cannot be read: {0}")]
    Keys(String),
    /// The system refuses memory or signal handlers.
    #[error("the machine cannot be made: {0}")]
    Machine(String),
    /// No sandboxed process is available, or it did not answer.
    #[error("no answer from within the sandbox: {0}")]
    Sandbox(String),
}

pub(crate) use antares_pool::describe as chain;
