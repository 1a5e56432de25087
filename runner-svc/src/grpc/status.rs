//! Errors for callers and the log when there is no verdict, and the meaning of a compiler service's statuses.

use std::time::Duration;

use antares_abi::Sha256Digest;
use antares_pool::PoolError;
use antares_serve::Fault;
use ckb_types::packed::OutPoint;
use tonic::{Code, Status};
use tonic_types::StatusExt;
use tracing::Span;

use crate::{
    ended::ExecuteError,
    limits::PROBLEM_BYTES_MAX,
    source::{Fallback, SourceError},
};

/// How long a caller should wait for a free worker.
const RETRY_BUSY: Duration = Duration::from_millis(500);

/// How long a caller should wait after we lost a worker: the next one is already running.
const RETRY_LOST: Duration = Duration::from_millis(20);

/// How long a caller should wait for the compiler service.
pub(crate) const RETRY_SOURCE: Duration = Duration::from_secs(1);

impl From<ExecuteError> for Status {
    fn from(error: ExecuteError) -> Self {
        let message = error.to_string();
        match error {
            ExecuteError::CallDeadline => Fault::call_deadline().into(),
            ExecuteError::Busy => Fault::exhausted("WORKERS_BUSY", message, RETRY_BUSY).into(),
            ExecuteError::QueueFull => Fault::exhausted("QUEUE_FULL", message, RETRY_BUSY).into(),
            ExecuteError::WorkerLost { .. } => Fault::unavailable("WORKER_LOST", message, RETRY_LOST).into(),
            ExecuteError::Transaction { field, problem } => transaction_fault(&field, &problem).into(),
            ExecuteError::Pool(PoolError::JobTooLarge { .. }) => {
                Fault::invalid("REQUEST_INVALID", message.clone()).violation("args", message).into()
            }
            ExecuteError::Quota(fault) => fault.into(),
            ExecuteError::Pool(error) => Fault::internal(&error).into(),
            ExecuteError::Internal | ExecuteError::FalseReport { .. } => Fault::logged().into(),
            ExecuteError::Source(error) => source_status(error, message),
        }
    }
}

/// An error in a transaction, with its field.
pub(crate) fn transaction_fault(field: &str, problem: &str) -> Fault {
    let problem = cut(problem);
    let message = format!("the transaction cannot be used: {problem}");
    Fault::invalid("TRANSACTION_INVALID", message).violation(cut(field), problem)
}

/// Cell data is not stored: its `digest`, the field that names it, and the cell's out point.
pub(crate) fn cell_data_fault(digest: Sha256Digest, field: &str, out_point: Option<&OutPoint>) -> Fault {
    let point = |point: &OutPoint| {
        let index: u32 = point.index().into();
        format!(" of {:#x}:{index}", point.tx_hash())
    };
    let cell = out_point.map(point).unwrap_or_default();
    let problem = "is not stored here";
    let fault = Fault::not_found("SCRIPT_NOT_FOUND", "cell data", digest.to_string());
    fault.reworded(format!("cell data {digest}{cell} {problem}")).violation(field, problem)
}

/// `text`, truncated if it is long.
fn cut(text: &str) -> String {
    match text.char_indices().map(|(at, _)| at).find(|at| *at > PROBLEM_BYTES_MAX) {
        Some(end) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

fn source_status(error: SourceError, message: String) -> Status {
    match error {
        SourceError::ScriptNotFound(digest) => {
            Fault::not_found("SCRIPT_NOT_FOUND", "script", digest.to_string()).into()
        }
        SourceError::NoArtifact { status, .. } => *status,
        SourceError::Unavailable { .. } => {
            Fault::unavailable("SOURCE_UNAVAILABLE", message, RETRY_SOURCE).into()
        }
        SourceError::OtherVersion { .. } => Fault::precondition("SOURCE_OTHER_VERSION", message).into(),
        SourceError::Quarantined { .. } => Fault::precondition("QUARANTINED", message).into(),
        SourceError::Corrupt { .. } => Fault::failed("COMPILE_FAILED", message).into(),
        SourceError::Internal => Fault::logged().into(),
    }
}

/// Descriptors or memory are exhausted at the moment.
pub(crate) fn out_of_resources() -> SourceError {
    let problem = "this process has no descriptors or no memory left";
    let status = Fault::exhausted("WORKERS_BUSY", problem, RETRY_BUSY).into();
    SourceError::NoArtifact { why: Fallback::WorkersBusy, status: Box::new(status) }
}

/// The inline script is invalid, with the compiler service's message.
pub(crate) fn no_script(mistake: &str) -> SourceError {
    let status = Fault::invalid("SCRIPT_INVALID", format!("it {mistake}")).into();
    SourceError::NoArtifact { why: Fallback::CompileRefused, status: Box::new(status) }
}

/// Converts a status of the compiler service for a script.
pub(crate) fn source_error(script: Sha256Digest, status: Status) -> SourceError {
    let details = status.get_error_details();
    let reason = details.error_info().map(|info| info.reason.as_str());
    let why = match (status.code(), reason) {
        (Code::NotFound, _) => return SourceError::ScriptNotFound(script),
        (Code::InvalidArgument, _) => Fallback::CompileRefused,
        (Code::FailedPrecondition, Some("COMPILE_TIMEOUT")) => Fallback::CompileTimeout,
        (Code::FailedPrecondition, _) => Fallback::CompileRefused,
        (Code::ResourceExhausted, Some("QUOTA")) => Fallback::Quota,
        (Code::ResourceExhausted, _) => Fallback::WorkersBusy,
        (Code::Unavailable, Some("WORKER_LOST")) => Fallback::CompileFailed,
        (Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::Unimplemented, _) => {
            return SourceError::Unavailable(status.message().to_owned());
        }
        // Without a reason, the status comes from a broken connection rather than from the service.
        (Code::Unknown | Code::Internal, None) => {
            return SourceError::Unavailable(status.message().to_owned());
        }
        (Code::DataLoss, _) => return SourceError::Corrupt(status.message().to_owned()),
        _ => Fallback::CompileFailed,
    };
    SourceError::NoArtifact { why, status: Box::new(status) }
}

/// Whether a compiler reports that it has the script but no native code of it.
pub(crate) fn is_not_compiled(status: &Status) -> bool {
    let details = status.get_error_details();
    details.error_info().is_some_and(|info| info.reason == "ARTIFACT_NOT_FOUND")
}

/// Longest caller's request ID in a log line, bytes; a longer one is refused.
const REQUEST_ID_LOGGED_MAX: usize = 128;

/// A new execution ID.
pub(crate) fn new_id() -> String {
    format!("{:016x}", rand::random::<u64>())
}

/// Adds the execution's IDs to all log lines of the call.
pub(crate) fn name_call(id: &str, request_id: &str) {
    let call = Span::current();
    call.record("execution_id", id);
    if !request_id.is_empty() {
        call.record("request_id", request_id.get(..REQUEST_ID_LOGGED_MAX).unwrap_or(request_id));
    }
}

/// Logs why there is no verdict.
pub(crate) fn record_on_span(error: &ExecuteError) {
    match error {
        ExecuteError::WorkerLost { detail } => tracing::warn!(detail, "a worker was lost"),
        ExecuteError::FalseReport { detail } => tracing::error!(detail, "no worker's report can be true"),
        error => tracing::debug!(%error, "no verdict"),
    }
}

/// Traces support signed numbers only; others would arrive as text.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest() -> Sha256Digest {
        Sha256Digest([7; 32])
    }

    #[track_caller]
    fn check(error: ExecuteError, code: Code, reason: &str, retries: bool) {
        let status = Status::from(error);
        let details = status.get_error_details();
        assert_eq!(status.code(), code);
        assert_eq!(details.error_info().map(|info| info.reason.as_str()), Some(reason));
        assert_eq!(details.retry_info().is_some(), retries);
    }

    #[test]
    fn every_error_has_its_status() {
        let detail = || "signal 9".to_owned();
        check(ExecuteError::CallDeadline, Code::DeadlineExceeded, "CALL_DEADLINE", false);
        check(ExecuteError::Busy, Code::ResourceExhausted, "WORKERS_BUSY", true);
        check(ExecuteError::QueueFull, Code::ResourceExhausted, "QUEUE_FULL", true);
        check(ExecuteError::WorkerLost { detail: detail() }, Code::Unavailable, "WORKER_LOST", true);
        check(ExecuteError::Internal, Code::Internal, "INTERNAL", false);
        let mistake =
            ExecuteError::Transaction { field: "tx.inputs[0]".to_owned(), problem: "ä".repeat(9_000) };
        let status = Status::from(mistake);
        let violations = status.get_error_details().bad_request().unwrap().field_violations.clone();
        assert_eq!(violations[0].field, "tx.inputs[0]");
        assert!(status.message().len() < 1_000 && status.details().len() < 2_000);
        let source = |error| ExecuteError::Source(error);
        check(source(SourceError::ScriptNotFound(digest())), Code::NotFound, "SCRIPT_NOT_FOUND", false);
        let unavailable = SourceError::Unavailable(detail());
        check(source(unavailable), Code::Unavailable, "SOURCE_UNAVAILABLE", true);
        let too_large = PoolError::JobTooLarge { bytes: 2, bytes_max: 1 };
        check(ExecuteError::Pool(too_large), Code::InvalidArgument, "REQUEST_INVALID", false);
    }

    #[test]
    fn answers_of_the_compiler_differ_from_trouble_on_the_way() {
        let refused = Status::from(Fault::precondition("LIMIT_BLOCKS", "too many"));
        assert_eq!(source_error(digest(), refused).fallback(), Some(Fallback::CompileRefused));
        let slow = Status::from(Fault::precondition("COMPILE_TIMEOUT", "slow"));
        assert_eq!(source_error(digest(), slow).fallback(), Some(Fallback::CompileTimeout));
        let lost = Status::from(Fault::unavailable("WORKER_LOST", "gone", RETRY_LOST));
        assert_eq!(source_error(digest(), lost).fallback(), Some(Fallback::CompileFailed));
        let broken = Status::new(Code::Unknown, "h2 protocol error");
        assert_eq!(source_error(digest(), broken).fallback(), Some(Fallback::SourceUnavailable));
        let missing = Status::from(Fault::not_found("SCRIPT_NOT_FOUND", "script", "07"));
        assert_eq!(source_error(digest(), missing).fallback(), None);
    }

    #[test]
    fn a_refusal_is_handed_on_with_its_details() {
        let refused = Status::from(Fault::precondition("LIMIT_BLOCKS", "too many"));
        let refused = ExecuteError::Source(source_error(digest(), refused));
        check(refused, Code::FailedPrecondition, "LIMIT_BLOCKS", false);
    }
}
