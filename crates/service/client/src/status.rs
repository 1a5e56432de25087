//! What a status means to a client. The only file that knows codes.

use std::time::Duration;

use antares_proto::v1;
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
    /// The rule of the proto files: what carries a RetryInfo is asked again after its delay, and who is gone
    /// is not asked.
    pub(crate) fn of(status: &Status) -> Self {
        if let Some(retry) = status.get_details_retry_info() {
            return Self::Wait(retry.retry_delay.unwrap_or_default());
        }
        // Who is gone, or a proxy or a connection that says something in its stead: every other error of ours
        // has a reason.
        let is_gone = matches!(
            status.code(),
            // The last is a connection that was ended with ENHANCE_YOUR_CALM, for whatever other calls did on
            // it.
            Code::Unavailable | Code::Unknown | Code::Internal | Code::Cancelled | Code::ResourceExhausted
        );
        if is_gone && status.get_details_error_info().is_none() { Self::Elsewhere } else { Self::No }
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

/// What a call for one thing alone would have ended with.
pub(crate) fn of_error(error: &v1::OperationError) -> Status {
    Status::with_details(Code::from_i32(error.code), error.message.clone(), error.status_details.clone())
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

/// What a server lacks for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    /// A script, or data of cells.
    Script,
    /// The service that has them.
    Source,
}

/// What a server that says this lacks, if it is that.
pub(crate) fn lack(status: &Status) -> Option<Lack> {
    match reason(status)?.as_str() {
        "SCRIPT_NOT_FOUND" => Some(Lack::Script),
        "SOURCE_UNAVAILABLE" => Some(Lack::Source),
        _ => None,
    }
}

/// Whether an upload ended so because it is nothing that is kept as a script.
pub(crate) fn is_no_script(status: &Status) -> bool {
    reason(status).as_deref() == Some("SCRIPT_INVALID")
}

/// Whether an upload ended before its end, and another call may go on with it: the connection or the server
/// went away, or time ran out.
pub(crate) fn is_broken_off(status: &Status) -> bool {
    match reason(status).as_deref() {
        None | Some("") => matches!(
            status.code(),
            Code::Unavailable | Code::Unknown | Code::Cancelled | Code::Internal | Code::DeadlineExceeded
        ),
        Some(reason) => {
            matches!(
                reason,
                "UPLOAD_IDLE" | "UPLOAD_OFFSET" | "CALL_DEADLINE" | "REQUEST_DEADLINE" | "SOURCE_UNAVAILABLE"
            )
        }
    }
}

/// Whether the server does not know the call.
pub(crate) fn is_unknown_call(status: &Status) -> bool {
    status.code() == Code::Unimplemented
}

/// Whether an upload ended so because there, or of this caller, no uploads are taken or kept: calls that bring
/// the script along are answered all the same.
pub(crate) fn takes_no_uploads(status: &Status) -> bool {
    let is_full = match reason(status).as_deref() {
        Some("STORE_FULL") => true,
        // Of stored bytes: other quotas come free by themselves.
        Some("QUOTA") => status.get_details_retry_info().is_none(),
        _ => false,
    };
    is_full || matches!(status.code(), Code::Unimplemented | Code::PermissionDenied)
}

/// The call's own time passed here.
pub(crate) fn late() -> Status {
    Status::deadline_exceeded("no answer within the call's time")
}

/// A server said less than it had to.
pub(crate) fn ended_early() -> Status {
    Status::unavailable("the session ended early")
}

/// A server that says UNAVAILABLE for this reason.
#[cfg(test)]
pub(crate) fn reported(reason: &str) -> Status {
    let details = tonic_types::ErrorDetails::with_error_info(reason, antares_proto::ERROR_DOMAIN, []);
    Status::with_error_details(Code::Unavailable, "particulars", details)
}

#[cfg(test)]
mod tests {
    use tonic_types::ErrorDetails;

    use super::*;

    #[test]
    fn what_is_not_kept_there_comes_along() {
        let later = |reason| {
            let mut details = ErrorDetails::with_retry_info(Some(Duration::from_secs(1)));
            details.set_error_info(reason, "antares.v1", []);
            takes_no_uploads(&Status::with_error_details(Code::ResourceExhausted, "full", details))
        };
        assert!(later("STORE_FULL") && takes_no_uploads(&reported("QUOTA")));
        assert!(!later("QUOTA") && !later("UPLOADS_BUSY") && !takes_no_uploads(&reported("SCRIPT_INVALID")));
    }

    #[test]
    fn only_what_may_pass_is_asked_again() {
        let delay = Duration::from_millis(70);
        let mut details = ErrorDetails::with_retry_info(Some(delay));
        details.set_error_info("WORKERS_BUSY", "antares.v1", []);
        let busy = Status::with_error_details(Code::ResourceExhausted, "busy", details);
        assert_eq!(Advice::of(&busy), Advice::Wait(delay));
        assert_eq!(Advice::of(&Status::unavailable("going")), Advice::Elsewhere);
        assert_eq!(Advice::of(&reported("SOURCE_UNAVAILABLE")), Advice::No);
        for code in [Code::InvalidArgument, Code::DeadlineExceeded, Code::OutOfRange] {
            assert_eq!(Advice::of(&Status::new(code, "its own")), Advice::No, "{code:?}");
        }
        let fault = ErrorDetails::with_error_info("INTERNAL", "antares.v1", []);
        let fault = Status::with_error_details(Code::Internal, "no", fault);
        assert_eq!(Advice::of(&fault), Advice::No);
        // nginx with its page for 502, as tonic reads it.
        assert_eq!(Advice::of(&Status::internal("invalid compression flag: 60")), Advice::Elsewhere);
        assert_eq!(Advice::of(&Status::resource_exhausted("h2 protocol error")), Advice::Elsewhere);
        let lost = Status::from_error(Box::new(std::io::Error::other("reset")));
        assert_eq!(Advice::of(&lost), Advice::Elsewhere);
    }
}
