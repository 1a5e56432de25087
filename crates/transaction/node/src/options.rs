//! Options of a node's client.

use std::{path::PathBuf, time::Duration};

use crate::limits;

/// Limits, times and places of a node's client.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// Bytes of one answer.
    pub answer_bytes_max: usize,
    /// Time for a connection.
    pub connect_time: Duration,
    /// Time for a request and its whole answer.
    pub call_time: Duration,
    /// How often a request is sent at the most.
    pub attempts: u32,
    /// Wait before the second time; each next one is twice as long.
    pub backoff: Duration,
    /// The longest wait.
    pub backoff_max: Duration,
    /// Bytes that are kept in memory.
    pub memory_bytes_max: u64,
    /// A folder to keep transactions, headers and extensions in.
    pub folder: Option<PathBuf>,
    /// Bytes that the folder may have.
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
