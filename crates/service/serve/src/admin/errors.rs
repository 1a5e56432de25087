//! A status as a message: the error of one item of many.

use antares_proto::v1;
use bytes::Bytes;
use tonic::Status;
use tonic_types::StatusExt as _;

/// Converts `status` with all its details.
pub fn operation_error(status: &Status) -> v1::OperationError {
    let details = status.get_error_details();
    let retry = details.retry_info().and_then(|info| info.retry_delay);
    let violations =
        details.bad_request().map(|request| request.field_violations.clone()).unwrap_or_default();
    v1::OperationError {
        code: status.code().into(),
        reason: details.error_info().map(|info| info.reason.clone()).unwrap_or_default(),
        message: status.message().to_owned(),
        retry_after_ms: retry.map(|delay| u64::try_from(delay.as_millis()).unwrap_or(u64::MAX)),
        violations: violations
            .into_iter()
            .map(|wrong| v1::FieldViolation { field: wrong.field, description: wrong.description })
            .collect(),
        status_details: Bytes::copy_from_slice(status.details()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::Fault;

    use super::*;

    #[test]
    fn hints_and_details_are_kept() {
        let status = Status::from(Fault::exhausted("WORKERS_BUSY", "later", Duration::from_millis(1_500)));
        let error = operation_error(&status);
        assert_eq!((error.reason.as_str(), error.retry_after_ms), ("WORKERS_BUSY", Some(1_500)));
        assert_eq!((error.code, &error.status_details[..]), (status.code().into(), status.details()));
        let wrong = Fault::invalid("REQUEST_INVALID", "no").violation("shared.tier", "has no value 9");
        let error = operation_error(&wrong.into());
        assert_eq!(error.retry_after_ms, None);
        assert_eq!(error.violations[0].field, "shared.tier");
        assert_eq!(operation_error(&Status::cancelled("gone")).reason, "");
    }
}
