//! Options of a node's client.

use std::{path::PathBuf, time::Duration};

use crate::limits;

/// Limits, timeouts and cache locations of a node's client.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// Maximum bytes of one answer.
    pub answer_bytes_max: usize,
    /// Maximum time for connecting.
    pub connect_time: Duration,
    /// Maximum time for a request with its complete answer.
    pub call_time: Duration,
    /// Maximum attempts of a request.
    pub attempts: u32,
    /// Wait before the second attempt; doubles for each further one.
    pub backoff: Duration,
    /// Maximum wait.
    pub backoff_max: Duration,
    /// Maximum bytes cached in memory.
    pub memory_bytes_max: u64,
    /// A folder that caches transactions, headers and extensions.
    pub folder: Option<PathBuf>,
    /// Maximum bytes in the folder.
    pub disk_bytes_max: u64,
}

impl Default for NodeOptions {
    fn default() -> Self {
        Self {
            answer_bytes_max: limits::ANSWER_BYTES_MAX,
            connect_time: limits::CONNECT_TIME_MAX,
            call_time: limits::CALL_TIME_MAX,
            attempts: limits::ATTEMPTS_MAX,
            backoff: limits::BACKOFF,
            backoff_max: limits::BACKOFF_MAX,
            memory_bytes_max: limits::MEMORY_BYTES_MAX,
            folder: None,
            disk_bytes_max: limits::DISK_BYTES_MAX,
        }
    }
}
