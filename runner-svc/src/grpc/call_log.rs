//! What the log says of calls.

use tracing::Span;

use crate::ended::ExecuteError;

/// Bytes of a caller's name for a request that a log line has, at most; a longer one is refused.
const REQUEST_ID_LOGGED_MAX: usize = 128;

/// A name for an execution.
pub(crate) fn new_id() -> String {
    format!("{:016x}", rand::random::<u64>())
}

/// Lets all that the log says of the call have the names of its execution.
pub(crate) fn name_call(id: &str, request_id: &str) {
    let call = Span::current();
    call.record("execution_id", id);
    if !request_id.is_empty() {
        call.record("request_id", request_id.get(..REQUEST_ID_LOGGED_MAX).unwrap_or(request_id));
    }
}

/// Tells the log why there is no verdict.
pub(crate) fn record_on_span(error: &ExecuteError) {
    match error {
        ExecuteError::WorkerLost { detail } => tracing::warn!(detail, "a worker was lost"),
        ExecuteError::FalseReport { detail } => tracing::error!(detail, "no worker's report can be true"),
        error => tracing::debug!(%error, "no verdict"),
    }
}

/// Traces have signed numbers only; others would arrive as text.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
