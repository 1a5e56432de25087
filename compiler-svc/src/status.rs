//! Errors for callers: each error of the compiler as a gRPC status with details.

use std::time::Duration;

use antares_serve::Fault;

use crate::{
    artifact::CompileError, failures::LOST, scripts::StoreScriptError, signed::REVOKED, uploads::UploadError,
};

/// Wait of a caller for a free compile worker or for space in the store.
const RETRY_BUSY: Duration = Duration::from_secs(2);

/// Wait of a caller after we lost a worker: the next one is already running.
const RETRY_LOST: Duration = Duration::from_millis(50);

impl From<CompileError> for Fault {
    fn from(error: CompileError) -> Self {
        let message = error.to_string();
        match error {
            CompileError::ScriptNotFound(digest) => {
                Self::not_found("SCRIPT_NOT_FOUND", "script", digest.to_string())
            }
            CompileError::Refused { reason, detail } => refused(&reason, &detail),
            CompileError::Timeout(wall_ms_max) => Self::precondition("COMPILE_TIMEOUT", message)
                .metadata("compile_wall_ms_max", wall_ms_max.to_string()),
            CompileError::Busy { .. } => Self::exhausted("WORKERS_BUSY", message, RETRY_BUSY),
            CompileError::WorkerLost { .. } => Self::unavailable("WORKER_LOST", message, RETRY_LOST),
            CompileError::Violation { .. } => Self::failed("COMPILER_VIOLATION", message),
            CompileError::Failed { .. } => Self::failed("COMPILE_FAILED", message),
            CompileError::Quota(fault) => fault,
            CompileError::Internal => Self::logged(),
        }
    }
}

fn refused(reason: &str, detail: &str) -> Fault {
    let limit = match reason {
        "limit_code_bytes" => "LIMIT_CODE_BYTES",
        "limit_functions" => "LIMIT_FUNCTIONS",
        "limit_blocks" => "LIMIT_BLOCKS",
        "limit_operations" => "LIMIT_OPERATIONS",
        LOST => "COMPILE_LOST",
        REVOKED => "ARTIFACT_REVOKED",
        "options" => return Fault::invalid("OPTIONS_INVALID", detail),
        _ => return Fault::invalid("SCRIPT_INVALID", detail),
    };
    Fault::precondition(limit, detail)
}

impl From<StoreScriptError> for Fault {
    fn from(error: StoreScriptError) -> Self {
        let message = error.to_string();
        match error {
            StoreScriptError::WrongDigest => Self::invalid("DIGEST_MISMATCH", message),
            StoreScriptError::Rejected(_) => Self::exhausted("STORE_FULL", message, RETRY_BUSY),
            StoreScriptError::Quota(fault) => fault,
            StoreScriptError::Internal => Self::logged(),
        }
    }
}

impl From<UploadError> for Fault {
    fn from(error: UploadError) -> Self {
        let message = error.to_string();
        match error {
            UploadError::Offset { received, .. } => {
                Self::precondition("UPLOAD_OFFSET", message).metadata("received_bytes", received.to_string())
            }
            UploadError::Size { .. } => Self::invalid("SIZE_MISMATCH", message),
            UploadError::TakenOver => Self::aborted("UPLOAD_TAKEN_OVER", message),
            UploadError::NoRoom { .. } => Self::exhausted("UPLOAD_BYTES", message, RETRY_BUSY),
            UploadError::DiskFull => Self::exhausted("STORE_FULL", message, RETRY_BUSY),
            UploadError::Internal => Self::logged(),
        }
    }
}

#[cfg(test)]
mod tests {
    use tonic::{Code, Status};
    use tonic_types::StatusExt;

    use super::*;

    #[track_caller]
    fn check(error: CompileError, code: Code, reason: &str, retries: bool) {
        let status = Status::from(Fault::from(error));
        let details = status.get_error_details();
        assert_eq!(status.code(), code);
        assert_eq!(details.error_info().map(|info| info.reason.as_str()), Some(reason));
        assert_eq!(details.retry_info().is_some(), retries);
    }

    fn refusal(reason: &str) -> CompileError {
        CompileError::Refused { reason: reason.to_owned(), detail: "at 0x1000".to_owned() }
    }

    #[test]
    fn every_error_has_its_status() {
        let detail = || "signal 9".to_owned();
        check(refusal("elf"), Code::InvalidArgument, "SCRIPT_INVALID", false);
        check(refusal("options"), Code::InvalidArgument, "OPTIONS_INVALID", false);
        check(refusal(LOST), Code::FailedPrecondition, "COMPILE_LOST", false);
        check(refusal(REVOKED), Code::FailedPrecondition, "ARTIFACT_REVOKED", false);
        check(refusal("limit_blocks"), Code::FailedPrecondition, "LIMIT_BLOCKS", false);
        check(CompileError::Timeout(5), Code::FailedPrecondition, "COMPILE_TIMEOUT", false);
        check(CompileError::Busy(5), Code::ResourceExhausted, "WORKERS_BUSY", true);
        check(CompileError::WorkerLost(detail()), Code::Unavailable, "WORKER_LOST", true);
        check(CompileError::Violation(detail()), Code::Internal, "COMPILER_VIOLATION", false);
        check(CompileError::Failed(detail()), Code::Internal, "COMPILE_FAILED", false);
        check(CompileError::Internal, Code::Internal, "INTERNAL", false);
    }
}
