//! Why a node did not return the requested data, and for which request.

use std::{fmt, time::Duration};

use ckb_types::packed::Byte32;

/// A request: its method and subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRequest {
    /// The JSON-RPC method.
    pub method: &'static str,
    /// Its first parameter, as sent.
    pub of: String,
}

impl NodeRequest {
    pub(crate) fn new(method: &'static str, of: impl Into<String>) -> Self {
        Self { method, of: of.into() }
    }
}

impl fmt::Display for NodeRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.method, self.of)
    }
}

/// Why there is no usable answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeError {
    /// The address is invalid.
    #[error("{url:?} is no address of a node: {problem}")]
    Address {
        /// The address.
        url: String,
        /// The problem.
        problem: &'static str,
    },
    /// There are no root certificates to verify the node's certificate.
    #[error("this system has no authorities that certificates could be checked with")]
    NoAuthorities,
    /// No connection, or it broke before the answer was complete.
    #[error("{url}: {detail}")]
    Unreachable {
        /// The node.
        url: String,
        /// The cause.
        detail: String,
    },
    /// No complete answer in time.
    #[error("{url}: no whole answer within {seconds} s")]
    TooSlow {
        /// The node.
        url: String,
        /// The time limit.
        seconds: u64,
    },
    /// An unsuccessful HTTP status.
    #[error("{url}: HTTP status {status}")]
    Status {
        /// The node.
        url: String,
        /// The status.
        status: u16,
        /// The wait that the node requests.
        wait_s: Option<u64>,
    },
    /// The answer is too long.
    #[error("{url}: the answer to {method} is longer than {bytes_max} bytes")]
    TooLong {
        /// The node.
        url: String,
        /// The method.
        method: &'static str,
        /// Maximum number of bytes.
        bytes_max: usize,
    },
    /// A successful HTTP response that is not JSON, such as a proxy's page.
    #[error("{url}: the answer to {method} is no JSON")]
    NoJson {
        /// The node.
        url: String,
        /// The method.
        method: &'static str,
    },
    /// The answer is not JSON-RPC, or has the wrong structure for the method.
    #[error("{url}: the answer to {method} makes no sense: {detail}")]
    Senseless {
        /// The node.
        url: String,
        /// The method.
        method: &'static str,
        /// The problem and its location.
        detail: String,
    },
    /// The node returned an error.
    #[error("{url}: {request}: error {code}: {message}")]
    Refused {
        /// The node.
        url: String,
        /// The request.
        request: NodeRequest,
        /// Code of the JSON-RPC error.
        code: i64,
        /// Its message.
        message: String,
    },
    /// The node does not have the data.
    #[error("{url}: {request}: the node does not know it{why}")]
    Unknown {
        /// The node.
        url: String,
        /// The request.
        request: NodeRequest,
        /// Additional information.
        why: String,
    },
    /// The data does not match its hash.
    #[error("{url} gives something else than it was asked for: {request}: {detail}")]
    Lie {
        /// The node.
        url: String,
        /// The request.
        request: NodeRequest,
        /// The mismatch.
        detail: String,
    },
}

impl NodeError {
    /// Whether the error is transient.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::TooSlow { .. } | Self::NoJson { .. } => true,
            Self::Status { status, .. } => is_later(i64::from(*status)),
            // Server-defined codes, such as -32005 of providers for too many requests; an internal error; and
            // HTTP statuses as JSON-RPC codes.
            Self::Refused { code, .. } => matches!(code, -32_099..=-32_000 | -32_603) || is_later(*code),
            _ => false,
        }
    }

    /// Whether the node's answer is not trustworthy.
    #[must_use]
    pub fn is_wrong(&self) -> bool {
        matches!(self, Self::Lie { .. } | Self::Senseless { .. } | Self::TooLong { .. })
    }

    /// The wait that the node requests.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { wait_s, .. } => wait_s.map(Duration::from_secs),
            _ => None,
        }
    }
}

/// Whether an HTTP status is transient.
fn is_later(status: i64) -> bool {
    matches!(status, 408 | 429 | 500..=599)
}

/// A hash in the nodes' format.
pub(crate) fn hex(hash: &Byte32) -> String {
    format!("{hash:#x}")
}
