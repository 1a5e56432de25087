//! The client's interpretation of statuses. Only this file knows codes.

use std::time::Duration;

use antares_proto::v1;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::Error;

/// Action for a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Advice {
    /// Retry after this time.
    Wait(Duration),
    /// This server is gone: try another one.
    Elsewhere,
    /// It is the answer.
    No,
}

impl Advice {
    /// The rule of the proto files: retry after the delay of a RetryInfo, and avoid servers that are gone.
    pub(crate) fn of(status: &Status) -> Self {
        if let Some(retry) = status.get_details_retry_info() {
            return Self::Wait(retry.retry_delay.unwrap_or_default());
        }
        // The server is gone, or a proxy or connection replies for it: all our other errors have a reason.
        let is_gone = matches!(
            status.code(),
            // The last is a connection ended with ENHANCE_YOUR_CALM because of other calls on it.
            Code::Unavailable | Code::Unknown | Code::Internal | Code::Cancelled | Code::ResourceExhausted
        );
        if is_gone && status.get_details_error_info().is_none() { Self::Elsewhere } else { Self::No }
    }
}

impl Error {
    /// The status's code, if any.
    #[must_use]
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Status { status, .. } => Some(status.code()),
            _ => None,
        }
    }

    /// The server's reason, such as `WORKERS_BUSY`: the proto files list them at each call.
    #[must_use]
    pub fn reason(&self) -> Option<String> {
        match self {
            Self::Status { status, .. } => reason(status),
            _ => None,
        }
    }
}

/// The status that a single call would have had.
pub(crate) fn of_error(error: &v1::OperationError) -> Status {
    Status::with_details(Code::from_i32(error.code), error.message.clone(), error.status_details.clone())
}

pub(crate) fn reason(status: &Status) -> Option<String> {
    status.get_details_error_info().map(|info| info.reason)
}

/// Whether a server ended a session for its age or silence; a new one has neither.
pub(crate) fn is_over(status: &Status) -> bool {
    status.code() == Code::DeadlineExceeded || reason(status).as_deref() == Some("SESSION_IDLE")
}

/// Whether this status comes from a healthy server.
pub(crate) fn is_well(status: &Status) -> bool {
    !matches!(status.code(), Code::DeadlineExceeded | Code::Internal)
}

/// Missing data on a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    /// A script, or cell data.
    Script,
    /// The service that has them.
    Source,
}

/// What the server lacks according to this status, if anything.
pub(crate) fn lack(status: &Status) -> Option<Lack> {
    match reason(status)?.as_str() {
        "SCRIPT_NOT_FOUND" => Some(Lack::Script),
        "SOURCE_UNAVAILABLE" => Some(Lack::Source),
        _ => None,
    }
}

/// Whether an upload failed because the server does not store such a file as a script.
pub(crate) fn is_no_script(status: &Status) -> bool {
    reason(status).as_deref() == Some("SCRIPT_INVALID")
}

/// Whether an upload was interrupted and another call may continue it: the connection or the server was lost,
/// or time ran out.
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

/// Whether an upload failed because the server accepts none, or none from this caller: calls with the inline
/// script still work.
pub(crate) fn takes_no_uploads(status: &Status) -> bool {
    let is_full = match reason(status).as_deref() {
        Some("STORE_FULL") => true,
        // The quota of stored bytes: other quotas free up by themselves.
        Some("QUOTA") => status.get_details_retry_info().is_none(),
        _ => false,
    };
    is_full || matches!(status.code(), Code::Unimplemented | Code::PermissionDenied)
}

/// The call timed out locally.
pub(crate) fn late() -> Status {
    Status::deadline_exceeded("no answer within the call's time")
}

/// The response ended early.
pub(crate) fn ended_early() -> Status {
    Status::unavailable("the session ended early")
}

/// A server that reports UNAVAILABLE for this reason.
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
        // nginx's page for 502, as tonic reads it.
        assert_eq!(Advice::of(&Status::internal("invalid compression flag: 60")), Advice::Elsewhere);
        assert_eq!(Advice::of(&Status::resource_exhausted("h2 protocol error")), Advice::Elsewhere);
        let lost = Status::from_error(Box::new(std::io::Error::other("reset")));
        assert_eq!(Advice::of(&lost), Advice::Elsewhere);
    }
}
