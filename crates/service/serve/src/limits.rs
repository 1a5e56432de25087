//! Fixed limits of listeners, logs and traces.

use std::time::Duration;

/// Timeout for the bytes of a message.
pub(crate) const MESSAGE_TIME_MAX: Duration = Duration::from_secs(30);

/// Age at which a connection takes no more calls, plus or minus a tenth.
pub(crate) const CONNECTION_AGE_MAX: Duration = Duration::from_secs(1_800);

/// Grace for the calls of such a connection.
pub(crate) const CONNECTION_AGE_GRACE: Duration = Duration::from_secs(300);

/// How long an ended call may wait for its caller to read the response.
pub(crate) const UNREAD_GRACE: Duration = Duration::from_secs(2);

/// Longest header list of a call, bytes.
pub(crate) const HEADER_BYTES_MAX: u32 = 16 << 10;

/// Streams that a connection may open and reset before acceptance (rapid reset); more closes it.
pub(crate) const PENDING_RESETS_MAX: usize = 32;

/// Lines of one kind (one code location) per second, averaged over ten seconds; for levels `info` and above.
pub(crate) const LOG_LINES_PER_SECOND: u64 = 50;

/// Spans queued for the collector; others are dropped.
pub(crate) const SPANS_WAITING_MAX: usize = 2_048;

/// Timeout of an export of spans.
pub(crate) const SPAN_EXPORT_TIME_MAX: Duration = Duration::from_secs(2);
