//! Why the command could not give what was asked for, and the exit status that says so.

use std::process::ExitCode;

/// A failure of the command itself. How a script ends is a report, never a failure.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// What was asked for makes no sense, or a file cannot be read or written.
    #[error("{0:#}")]
    Usage(anyhow::Error),
    /// The script is malformed or beyond a limit of the compiler; the same bytes are always refused.
    #[error("the script cannot be compiled ({reason}): {detail}")]
    Refused {
        /// Reason from the compiler's closed set.
        reason: String,
        /// What and where.
        detail: String,
    },
    /// Antares, here or on the server, failed to do its work.
    #[error("{0:#}")]
    Service(anyhow::Error),
}

impl Failure {
    /// Whether the script was refused because it is no ELF that the VM could load.
    pub(crate) fn is_malformed_script(&self) -> bool {
        matches!(self, Self::Refused { reason, .. } if reason == "elf")
    }

    /// 1 for a refused script, 2 for wrong usage or unreadable input, 3 for a failure of ours.
    pub(crate) fn exit_status(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Refused { .. } => 1,
            Self::Usage(_) => 2,
            Self::Service(_) => 3,
        })
    }
}
