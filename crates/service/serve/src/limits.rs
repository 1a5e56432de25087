//! Limits of listeners, logs and traces that no key sets.

use std::time::Duration;

/// How long the server waits for the bytes of a message.
pub(crate) const MESSAGE_TIME_MAX: Duration = Duration::from_secs(30);

/// A connection takes no more calls after so long, give or take a tenth.
pub(crate) const CONNECTION_AGE_MAX: Duration = Duration::from_secs(1_800);

/// How long the calls of such a connection may then take to end.
pub(crate) const CONNECTION_AGE_GRACE: Duration = Duration::from_secs(300);

/// How long after its end a call may wait for its caller to take the answer.
pub(crate) const UNREAD_GRACE: Duration = Duration::from_secs(2);

/// Longest header list of a call, bytes.
pub(crate) const HEADER_BYTES_MAX: u32 = 16 << 10;

/// Streams that a connection may open and reset before they are accepted (rapid reset); more closes it.
pub(crate) const PENDING_RESETS_MAX: usize = 32;

/// Lines of one kind (a place in the code) that are written a second, on average over ten seconds; of levels
/// from `info` up.
pub(crate) const LOG_LINES_PER_SECOND: u64 = 50;

/// Spans that wait for the collector; more are dropped.
pub(crate) const SPANS_WAITING_MAX: usize = 2_048;

/// How long one export of spans may take.
pub(crate) const SPAN_EXPORT_TIME_MAX: Duration = Duration::from_secs(2);
