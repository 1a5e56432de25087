//! The only file that knows gRPC status codes: a [`Fault`] describes an error, and becomes a status with
//! details.

use std::{collections::HashMap, error::Error, io, time::Duration};

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

/// `ErrorInfo.domain` of every error.
pub const ERROR_DOMAIN: &str = "antares.v1";

/// The reason for a call past its deadline.
pub const CALL_DEADLINE: &str = "CALL_DEADLINE";

/// An error for a caller: a reason from a closed set, a message for people, and details for programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    // Boxed: it is the error type of many small functions.
    facts: Box<Facts>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Facts {
    code: Code,
    reason: &'static str,
    message: String,
    retry_after: Option<Duration>,
    violations: Vec<(String, String)>,
    quota: Option<(String, String)>,
    resource: Option<(&'static str, String)>,
    metadata: HashMap<String, String>,
}

impl Fault {
    fn new(code: Code, reason: &'static str, message: impl Into<String>) -> Self {
        let facts = Facts {
            code,
            reason,
            message: message.into(),
            retry_after: None,
            violations: Vec::new(),
            quota: None,
            resource: None,
            metadata: HashMap::new(),
        };
        Self { facts: Box::new(facts) }
    }

    fn with_retry(mut self, retry_after: Duration) -> Self {
        self.facts.retry_after = Some(retry_after);
        self
    }

    /// INVALID_ARGUMENT: the request is invalid, whatever the server's state.
    pub fn invalid(reason: &'static str, message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, reason, message)
    }

    /// INVALID_ARGUMENT: `field` of the request is invalid, with the reason.
    pub fn field(reason: &'static str, field: &str, problem: &str) -> Self {
        Self::invalid(reason, format!("{field} {problem}")).violation(field, problem)
    }

    /// FAILED_PRECONDITION: this server's configuration does not allow it, and a retry does not help.
    pub fn precondition(reason: &'static str, message: impl Into<String>) -> Self {
        Self::new(Code::FailedPrecondition, reason, message)
    }

    /// PERMISSION_DENIED: this caller may not do it.
    pub fn denied(reason: &'static str, message: impl Into<String>) -> Self {
        Self::new(Code::PermissionDenied, reason, message)
    }

    /// NOT_FOUND: the resource `name` of type `kind` does not exist.
    pub fn not_found(reason: &'static str, kind: &'static str, name: impl Into<String>) -> Self {
        let name = name.into();
        let mut fault = Self::new(Code::NotFound, reason, format!("{kind} {name} is not stored here"));
        fault.facts.resource = Some((kind, name));
        fault
    }

    /// RESOURCE_EXHAUSTED: no capacity now; retry after `retry_after`.
    pub fn exhausted(reason: &'static str, message: impl Into<String>, retry_after: Duration) -> Self {
        Self::new(Code::ResourceExhausted, reason, message).with_retry(retry_after)
    }

    /// RESOURCE_EXHAUSTED: no capacity, and waiting does not help.
    pub(crate) fn used_up(reason: &'static str, message: impl Into<String>) -> Self {
        Self::new(Code::ResourceExhausted, reason, message)
    }

    /// UNAVAILABLE: a transient failure; retry after `retry_after`.
    pub fn unavailable(reason: &'static str, message: impl Into<String>, retry_after: Duration) -> Self {
        Self::new(Code::Unavailable, reason, message).with_retry(retry_after)
    }

    /// UNAUTHENTICATED: the caller is unknown or unproven.
    pub fn unauthenticated(reason: &'static str, message: impl Into<String>) -> Self {
        Self::new(Code::Unauthenticated, reason, message)
    }

    /// ABORTED: it was cancelled; start over.
    pub fn aborted(reason: &'static str, message: impl Into<String>) -> Self {
        Self::new(Code::Aborted, reason, message)
    }

    /// DEADLINE_EXCEEDED: the call's deadline passed.
    pub fn call_deadline() -> Self {
        Self::new(Code::DeadlineExceeded, CALL_DEADLINE, "the deadline of the call passed")
    }

    /// DEADLINE_EXCEEDED: the caller exceeded a timeout of the server.
    pub fn late(reason: &'static str, message: impl Into<String>) -> Self {
        Self::new(Code::DeadlineExceeded, reason, message)
    }

    /// RESOURCE_EXHAUSTED: it exceeds a size limit, and a retry does not help.
    pub fn too_large(message: impl Into<String>) -> Self {
        Self::used_up(TOO_LARGE, message)
    }

    /// INTERNAL with its own reason: an internal error that callers may want to distinguish.
    pub fn failed(reason: &'static str, message: impl Into<String>) -> Self {
        Self::new(Code::Internal, reason, message)
    }

    /// INTERNAL: an internal error. Logs the details here, and does not reveal them to the caller.
    pub fn internal(error: &dyn Error) -> Self {
        tracing::error!(error = chain(error), "internal error");
        Self::logged()
    }

    /// INTERNAL: an internal error with details already in the log.
    pub fn logged() -> Self {
        Self::new(Code::Internal, "INTERNAL", "internal error; the server's log has the particulars")
    }

    /// The same with another message.
    pub fn reworded(mut self, message: impl Into<String>) -> Self {
        self.facts.message = message.into();
        self
    }

    /// Adds a field of the request and its problem.
    pub fn violation(mut self, field: impl Into<String>, problem: impl Into<String>) -> Self {
        self.facts.violations.push((field.into(), problem.into()));
        self
    }

    /// Adds the exhausted quota and its owner.
    pub fn quota(mut self, subject: impl Into<String>, problem: impl Into<String>) -> Self {
        self.facts.quota = Some((subject.into(), problem.into()));
        self
    }

    /// Adds a detail for programs.
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.facts.metadata.insert(key.into(), value.into());
        self
    }

    /// The message for people.
    pub fn message(&self) -> &str {
        &self.facts.message
    }

    /// `ErrorInfo.reason`.
    pub fn reason(&self) -> &'static str {
        self.facts.reason
    }
}

impl From<Fault> for Status {
    fn from(fault: Fault) -> Self {
        let facts = *fault.facts;
        // Statuses travel in headers, which peers limit to 8 KiB or more: callers' text must not break the
        // call.
        let metadata = facts.metadata.into_iter().map(|(key, value)| (key, shorten(value, DETAIL_BYTES_MAX)));
        let mut details =
            ErrorDetails::with_error_info(facts.reason, ERROR_DOMAIN, metadata.collect::<HashMap<_, _>>());
        if let Some(delay) = facts.retry_after {
            details.set_retry_info(Some(delay));
        }
        for (field, problem) in facts.violations.into_iter().take(VIOLATIONS_MAX) {
            let (field, problem) = (shorten(field, FIELD_BYTES_MAX), shorten(problem, DETAIL_BYTES_MAX));
            details.add_bad_request_violation(field, problem);
        }
        if let Some((subject, problem)) = facts.quota {
            let (subject, problem) = (shorten(subject, DETAIL_BYTES_MAX), shorten(problem, DETAIL_BYTES_MAX));
            details.add_quota_failure_violation(subject, problem);
        }
        if let Some((kind, name)) = facts.resource {
            details.set_resource_info(kind, shorten(name, DETAIL_BYTES_MAX), "", "");
        }
        let mut status = Status::with_error_details(facts.code, message(facts.message), details);
        if let Some(delay) = facts.retry_after {
            // For gRPC's built-in retries.
            let ms = u64::try_from(delay.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX);
            status.metadata_mut().insert(PUSHBACK, ms.into());
        }
        status
    }
}

/// Metadata with the retry delay for gRPC clients, milliseconds.
const PUSHBACK: &str = "grpc-retry-pushback-ms";

/// Encoded bytes of a status message: three for each character that is not printable ASCII.
const MESSAGE_BYTES_MAX: usize = 1_500;

/// Request fields that a status names.
const VIOLATIONS_MAX: usize = 8;

/// Bytes of the name of such a field.
const FIELD_BYTES_MAX: usize = 96;

/// Bytes of any other text in the details.
const DETAIL_BYTES_MAX: usize = 160;

/// The prefix of the framework's error for undecodable messages, which it reports as INTERNAL.
const UNDECODABLE: &str = "failed to decode Protobuf message";

/// Converts an error from reading a caller's stream: the caller's error where the framework blames the
/// server.
pub fn caller_s(status: Status) -> Status {
    if status.code() == Code::Internal && status.message().starts_with(UNDECODABLE) {
        return Fault::invalid("MESSAGE_MALFORMED", status.message()).into();
    }
    status
}

const BROKEN_OFF: &str = "the request broke off";

/// Converts an error from reading a request's body: the caller sent invalid HTTP, or has gone away.
pub(crate) fn body_failed(error: hyper::Error) -> Status {
    let kind = error.source().and_then(|cause| cause.downcast_ref::<io::Error>()).map(io::Error::kind);
    match kind {
        Some(io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData) => {
            Fault::invalid("MESSAGE_MALFORMED", format!("the body is no HTTP: {}", chain(&error))).into()
        }
        // The framework takes CANCELLED for a normal end.
        _ => Status::aborted(BROKEN_OFF),
    }
}

/// The status of a call that outlasts its server: without a reason, as if the server were gone.
pub fn closing() -> Status {
    Status::new(Code::Unavailable, "the server stops: resume with another one what has no answer")
}

/// Like [`caller_s`], for a response with only a status.
pub(crate) fn caller_error(headers: &http::HeaderMap) -> Option<Status> {
    let status = Status::from_header_map(headers)?;
    match status.code() {
        Code::Internal => Some(caller_s(status)).filter(|status| status.code() != Code::Internal),
        // Without a reason, like a status from a proxy.
        Code::Aborted if status.message() == BROKEN_OFF => Some(Status::cancelled(BROKEN_OFF)),
        _ => None,
    }
}

/// `text`, truncated for a header.
fn message(text: String) -> String {
    let mut bytes = 0;
    let travels =
        |letter: char| if matches!(letter, ' '..='~') && letter != '%' { 1 } else { 3 * letter.len_utf8() };
    let end = text.char_indices().find(|(_, letter)| {
        bytes += travels(*letter);
        bytes > MESSAGE_BYTES_MAX
    });
    let end = end.map(|(end, _)| end);
    end.map_or(text.clone(), |end| format!("{}...", &text[..end]))
}

/// At most `most` bytes of `text`.
fn shorten(mut text: String, most: usize) -> String {
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most));
        text.push_str("...");
    }
    text
}

/// `error` and its causes, on one line.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let cause = error.to_string();
        // Some errors already include their cause.
        if !text.ends_with(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
        source = error.source();
    }
    text
}

/// Whether a library's service reports an unknown name.
pub(crate) fn is_not_found(status: &Status) -> bool {
    status.code() == Code::NotFound
}

/// The label of a status code, from the closed set of gRPC.
pub(crate) fn code_label(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

/// The reason of messages above the limit.
pub(crate) const TOO_LARGE: &str = "MESSAGE_TOO_LARGE";

/// The label of the code in `headers` or trailers, if any.
pub(crate) fn code_in(headers: &http::HeaderMap) -> Option<&'static str> {
    headers.get("grpc-status").map(|value| code_label(Code::from_bytes(value.as_bytes())))
}

/// The HTTP status for the gRPC code in `headers` or trailers; OK without one.
pub(crate) fn http_status(headers: &http::HeaderMap) -> http::StatusCode {
    let code = headers.get("grpc-status").map_or(Code::Ok, |value| Code::from_bytes(value.as_bytes()));
    match code {
        Code::Ok => http::StatusCode::OK,
        // The reader of an interrupted body may be gone.
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange | Code::Cancelled => {
            http::StatusCode::BAD_REQUEST
        }
        Code::Unauthenticated => http::StatusCode::UNAUTHORIZED,
        Code::PermissionDenied => http::StatusCode::FORBIDDEN,
        Code::NotFound => http::StatusCode::NOT_FOUND,
        Code::AlreadyExists | Code::Aborted => http::StatusCode::CONFLICT,
        // A retry would be as large.
        Code::ResourceExhausted if reason_in(headers).is_some_and(|reason| reason == TOO_LARGE) => {
            http::StatusCode::PAYLOAD_TOO_LARGE
        }
        Code::ResourceExhausted => http::StatusCode::TOO_MANY_REQUESTS,
        Code::Unimplemented => http::StatusCode::NOT_IMPLEMENTED,
        Code::Unavailable => http::StatusCode::SERVICE_UNAVAILABLE,
        Code::DeadlineExceeded => http::StatusCode::GATEWAY_TIMEOUT,
        Code::Unknown | Code::Internal | Code::DataLoss => http::StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Seconds of the retry delay in `headers` or trailers.
pub(crate) fn retry_seconds(headers: &http::HeaderMap) -> Option<u64> {
    let ms: u64 = headers.get(PUSHBACK)?.to_str().ok()?.parse().ok()?;
    Some(ms.div_ceil(1_000))
}

/// The reason in `headers` or trailers, if any.
pub(crate) fn reason_in(headers: &http::HeaderMap) -> Option<String> {
    let status = Status::from_header_map(headers)?;
    status.get_details_error_info().map(|info| info.reason)
}

/// Whether a call that ended with `code` was refused: for lack of capacity, or for its caller.
pub(crate) fn is_refusal(code: &str) -> bool {
    matches!(code, "RESOURCE_EXHAUSTED" | "PERMISSION_DENIED" | "UNAUTHENTICATED")
}

/// Labels of calls that fail by our fault.
pub(crate) const FAULTS: [&str; 2] = ["INTERNAL", "UNAVAILABLE"];

/// Label of a call cancelled by its caller.
pub(crate) const CANCELLED: &str = "CANCELLED";

/// Label of a call whose deadline passed.
pub(crate) const DEADLINE_EXCEEDED: &str = "DEADLINE_EXCEEDED";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_words_are_cut_at_a_character_wherever_they_stand() {
        for letter in ["a", "ä", "\u{202e}", "%", "\n", "\u{1f600}"] {
            let long = || letter.repeat(10_000);
            let mut fault =
                Fault::not_found("X", "script", long()).metadata("key", long()).quota(long(), long());
            for _ in 0..100 {
                fault = fault.violation(long(), long());
            }
            let headers = Status::from(fault).into_http::<()>().into_parts().0.headers;
            let bytes: usize =
                headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 32).sum();
            assert!(bytes <= 8_000, "{letter:?}: {bytes}");
            let status = Status::from_header_map(&headers).unwrap();
            assert_eq!(status.get_details_error_info().unwrap().reason, "X");
        }
    }

    #[test]
    fn who_shall_come_back_is_informed_in_the_way_of_grpc_too() {
        let pushback = |fault: Fault| {
            let status = Status::from(fault);
            status.metadata().get(PUSHBACK).map(|ms| ms.to_str().unwrap().to_owned())
        };
        let after = |us| Fault::exhausted("X", "x", Duration::from_micros(us));
        assert_eq!(pushback(after(50_000)).as_deref(), Some("50"));
        assert_eq!(pushback(after(1)).as_deref(), Some("1"));
        assert_eq!(pushback(Fault::unavailable("X", "x", Duration::from_secs(5))).as_deref(), Some("5000"));
        assert_eq!(pushback(Fault::invalid("X", "x")), None);
    }

    #[test]
    fn labels_are_the_names_of_the_codes() {
        for number in 0..=16 {
            let label = code_label(Code::from_i32(number));
            let name = format!("{:?}", Code::from_i32(number)).to_lowercase();
            assert_eq!(label.replace('_', "").to_lowercase(), name);
        }
    }
}
