//! Interprets gRPC statuses of a server. The only file that knows them.

use anyhow::anyhow;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::failure::Failure;

/// Problems that the command handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// The server does not have the script: upload it.
    ScriptNotFound,
    /// The worker was lost: an outcome of the run.
    WorkerLost,
    /// The server has no such call: it is a different service.
    NoSuchCall,
    /// The server does not know the requested name.
    NoSuchName,
    /// Anything else: report it.
    Other,
}

impl Problem {
    /// Reads the reason that the server adds to the code.
    pub(crate) fn of(status: &Status) -> Self {
        match reason(status).as_str() {
            "SCRIPT_NOT_FOUND" => Self::ScriptNotFound,
            "WORKER_LOST" => Self::WorkerLost,
            "" if status.code() == Code::NotFound => Self::NoSuchName,
            _ if status.code() == Code::Unimplemented => Self::NoSuchCall,
            _ => Self::Other,
        }
    }
}

/// Adds the server's address to an error that it sent.
fn server_error(url: &str, text: &str) -> anyhow::Error {
    anyhow!("{url} answered: {text}")
}

/// The status as a failure of the command: a refused script is the caller's error, all else the server's.
pub(crate) fn failure(url: &str, status: &Status) -> Failure {
    let refused =
        |reason: &str| Failure::Refused { reason: reason.to_owned(), detail: status.message().to_owned() };
    match reason(status).as_str() {
        "SCRIPT_INVALID" => refused("elf"),
        "LIMIT_CODE_BYTES" => refused("limit_code_bytes"),
        "LIMIT_FUNCTIONS" => refused("limit_functions"),
        "LIMIT_BLOCKS" => refused("limit_blocks"),
        "LIMIT_OPERATIONS" => refused("limit_operations"),
        "TRANSACTION_INVALID" => Failure::Usage(anyhow::anyhow!("{}", status.message())),
        "CELL_NOT_FOUND" | "REQUEST_INVALID" | "OPTIONS_INVALID" | "SCRIPT_TOO_LARGE" => {
            Failure::Usage(server_error(url, &text(status)))
        }
        "" if url.starts_with("http://") && matches!(status.code(), Code::Unknown | Code::Internal) => {
            Failure::Service(anyhow::anyhow!(
                "{url} ended the connection ({}); if it encrypts, say https://",
                status.message()
            ))
        }
        _ => Failure::Service(server_error(url, &text(status))),
    }
}

fn reason(status: &Status) -> String {
    status.get_details_error_info().map(|info| info.reason).unwrap_or_default()
}

/// Message, code and invalid fields.
fn text(status: &Status) -> String {
    let mut text = format!("{} ({:?}, {})", status.message(), status.code(), reason(status));
    for violation in status.get_details_bad_request().map(|bad| bad.field_violations).unwrap_or_default() {
        text.push_str(&format!("\n  {}: {}", violation.field, violation.description));
    }
    text
}

/// Whether a retry may succeed.
pub(crate) fn is_passing(status: &Status) -> bool {
    matches!(status.code(), Code::Unavailable | Code::ResourceExhausted | Code::Aborted)
}

/// Whether the named object does not exist.
pub(crate) fn is_not_found(status: &Status) -> bool {
    status.code() == Code::NotFound
}

#[cfg(test)]
mod tests {
    use tonic_types::{ErrorDetails, StatusExt as _};

    use super::*;

    fn status(code: Code, reason: &str) -> Status {
        let details = ErrorDetails::with_error_info(reason, antares_proto::ERROR_DOMAIN, []);
        Status::with_error_details(code, "particulars", details)
    }

    #[test]
    fn reasons_become_problems_and_failures() {
        assert_eq!(Problem::of(&status(Code::NotFound, "SCRIPT_NOT_FOUND")), Problem::ScriptNotFound);
        assert_eq!(Problem::of(&status(Code::Unavailable, "WORKER_LOST")), Problem::WorkerLost);
        assert_eq!(Problem::of(&Status::unavailable("no details")), Problem::Other);
        assert_eq!(Problem::of(&Status::unimplemented("")), Problem::NoSuchCall);
        let invalid = failure("here", &status(Code::InvalidArgument, "SCRIPT_INVALID"));
        assert!(invalid.is_of_the_vm(), "{invalid:?}");
        let busy = failure("here", &status(Code::ResourceExhausted, "WORKERS_BUSY"));
        assert_eq!(busy.to_string(), "here answered: particulars (ResourceExhausted, WORKERS_BUSY)");
        assert!(matches!(busy, Failure::Service(_)));
    }
}
