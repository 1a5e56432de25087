//! What receivers are sent, and why they do not take it, whoever they are.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Why a receiver did not take a profile.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PushError {
    #[error("the receiver did not answer within {0:?}")]
    Timeout(Duration),
    #[error("the receiver answered {0}")]
    Refused(String),
    #[error("the receiver cannot be reached: {0}")]
    Unreachable(String),
    #[error("the profile cannot be written")]
    Unwritten,
}

/// The time that a profile is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) start: SystemTime,
    pub(crate) end: SystemTime,
}

/// Time since 1970; zero before that.
pub(crate) fn since_epoch(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or_default()
}
