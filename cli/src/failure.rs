//! Failures of the command, and their exit statuses.

use std::{
    io::{IsTerminal as _, stderr},
    process::ExitCode,
};

use antares_profile_view::printable;

use crate::output::for_people;

/// A failure of the command itself. A script's outcome is a report, never a failure.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The request is invalid, or a file cannot be read or written.
    #[error("{}", chain(.0))]
    Usage(anyhow::Error),
    /// The script is malformed or exceeds a limit of the compiler; the same bytes always fail.
    #[error("the script cannot be compiled ({reason}): {detail}")]
    Refused {
        /// Reason from the compiler's closed set.
        reason: String,
        /// Details and location.
        detail: String,
    },
    /// Antares, here or on the server, failed to do its work.
    #[error("{}", chain(.0))]
    Service(anyhow::Error),
}

/// An error and its causes. Skips causes that an error's own message already contains.
fn chain(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |text, cause| {
        let cause = cause.to_string();
        match text.is_empty() {
            true => cause,
            false if text.ends_with(&cause) => text,
            false => format!("{text}: {cause}"),
        }
    })
}

impl Failure {
    /// The same error, with the file name.
    pub fn of(self, file: &str) -> Self {
        match self {
            Self::Usage(error) if error.to_string().starts_with(file) => Self::Usage(error),
            Self::Usage(error) => Self::Usage(error.context(file.to_owned())),
            Self::Service(error) => Self::Service(error.context(file.to_owned())),
            refused @ Self::Refused { .. } => refused,
        }
    }

    /// Whether the VM would refuse the script too: it is not a loadable ELF, or the version lacks the
    /// instruction set.
    pub fn is_of_the_vm(&self) -> bool {
        matches!(self, Self::Refused { reason, .. } if reason == "elf" || reason == "options")
    }

    /// Writes it to standard error and returns the exit status.
    #[must_use]
    pub fn report(&self) -> ExitCode {
        let text = format!("antares: {}", printable(&self.to_string()));
        eprintln!("{}", for_people(&text, stderr().is_terminal()));
        self.exit_status()
    }

    /// 1 for a refused script, 2 for wrong usage or unreadable input, 3 for a failure of ours.
    pub fn exit_status(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Refused { .. } => 1,
            Self::Usage(_) => 2,
            Self::Service(_) => 3,
        })
    }
}

/// The refusal of a server by a program without a client.
#[cfg(not(feature = "server"))]
pub(crate) fn no_server(url: &str) -> Failure {
    Failure::Usage(anyhow::anyhow!("cannot reach {url}: this antares was built without the feature `server`"))
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot start a worker: {0}")]
    struct WithCause(#[source] std::io::Error);

    #[test]
    fn a_cause_is_reported_once() {
        let cause = || std::io::Error::from_raw_os_error(2);
        let reported = Failure::Service(WithCause(cause()).into());
        assert_eq!(reported.to_string(), "cannot start a worker: No such file or directory (os error 2)");
        let reported = Failure::Usage(Err::<(), _>(cause()).context("cannot read x").unwrap_err());
        assert_eq!(reported.to_string(), "cannot read x: No such file or directory (os error 2)");
    }
}
