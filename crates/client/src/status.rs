//! What a status means to a client. The only file that knows codes.

use std::{error::Error as _, time::Duration};

use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::Error;

/// What to do about a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Advice {
    /// Ask again after this time.
    Wait(Duration),
    /// This server is gone: ask another one.
    Elsewhere,
    /// It is the answer.
    No,
}

impl Advice {
    /// The rule of the proto files: what carries a RetryInfo is asked again after its delay, and who is gone is not asked.
    pub(crate) fn of(status: &Status) -> Self {
        if let Some(retry) = status.get_details_retry_info() {
            return Self::Wait(retry.retry_delay.unwrap_or_default());
        }
        // The connection's own trouble has a source, what a server says has none.
        let is_lost = status.source().is_some()
            && matches!(status.code(), Code::Unknown | Code::Internal | Code::Cancelled);
        let is_gone = status.code() == Code::Unavailable && status.get_details_error_info().is_none();
        if is_lost || is_gone { Self::Elsewhere } else { Self::No }
    }
}

impl Error {
    /// The code of the status, if there is one.
    #[must_use]
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Status { status, .. } => Some(status.code()),
            _ => None,
        }
    }

    /// The reason that the server gave, such as `WORKERS_BUSY`: those that the proto files list at each call.
    #[must_use]
    pub fn reason(&self) -> Option<String> {
        match self {
            Self::Status { status, .. } => reason(status),
            _ => None,
        }
    }
}

pub(crate) fn reason(status: &Status) -> Option<String> {
    status.get_details_error_info().map(|info| info.reason)
}

/// Whether a server has ended a session for its age or its silence, which a new one does not have.
pub(crate) fn is_over(status: &Status) -> bool {
    status.code() == Code::DeadlineExceeded || reason(status).as_deref() == Some("SESSION_IDLE")
}

/// Whether a server that says this is well, so that its answer counts for it.
pub(crate) fn is_well(status: &Status) -> bool {
    !matches!(status.code(), Code::DeadlineExceeded | Code::Internal)
}

/// Whether an upload ended so because there, or of this caller, no uploads are taken.
pub(crate) fn takes_no_uploads(status: &Status) -> bool {
    matches!(status.code(), Code::Unimplemented | Code::PermissionDenied)
}

/// The call's own time passed here.
pub(crate) fn late() -> Status {
    Status::deadline_exceeded("no answer within the call's time")
}

/// A server said less than it had to.
pub(crate) fn ended_early() -> Status {
    Status::unavailable("the session ended early")
}

#[cfg(test)]
mod tests {
    use tonic_types::ErrorDetails;

    use super::*;

    #[test]
    fn only_what_may_pass_is_asked_again() {
        let delay = Duration::from_millis(70);
        let mut details = ErrorDetails::with_retry_info(Some(delay));
        details.set_error_info("WORKERS_BUSY", "antares.v1", []);
        let busy = Status::with_error_details(Code::ResourceExhausted, "busy", details);
        assert_eq!(Advice::of(&busy), Advice::Wait(delay));
        assert_eq!(Advice::of(&Status::unavailable("going")), Advice::Elsewhere);
        let told = ErrorDetails::with_error_info("SOURCE_UNAVAILABLE", "antares.v1", []);
        let told = Status::with_error_details(Code::Unavailable, "no", told);
        assert_eq!(Advice::of(&told), Advice::No);
        for code in [Code::Internal, Code::Unknown, Code::InvalidArgument, Code::DeadlineExceeded] {
            assert_eq!(Advice::of(&Status::new(code, "its own")), Advice::No, "{code:?}");
        }
        let lost = Status::from_error(Box::new(std::io::Error::other("reset")));
        assert_eq!(Advice::of(&lost), Advice::Elsewhere);
    }
}
