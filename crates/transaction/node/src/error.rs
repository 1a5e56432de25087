//! Why a node could not give what was asked for, and in answer to what.

use std::{fmt, time::Duration};

use ckb_types::packed::Byte32;

/// What was asked: a method and what of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRequest {
    /// Method of the JSON-RPC.
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

/// Why there is no answer, or none that can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeError {
    /// The address is none.
    #[error("{url:?} is no address of a node: {problem}")]
    Address {
        /// What was given.
        url: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// There are no authorities to check the node's certificate with.
    #[error("this system has no authorities that certificates could be checked with")]
    NoAuthorities,
    /// No connection, or it broke before the answer was whole.
    #[error("{url}: {detail}")]
    Unreachable {
        /// The node.
        url: String,
        /// What happened.
        detail: String,
    },
    /// No whole answer in time.
    #[error("{url}: no whole answer within {seconds} s")]
    TooSlow {
        /// The node.
        url: String,
        /// Time that it had.
        seconds: u64,
    },
    /// Another HTTP status than success.
    #[error("{url}: HTTP status {status}")]
    Status {
        /// The node.
        url: String,
        /// The status.
        status: u16,
        /// How long the node asks to wait.
        wait_s: Option<u64>,
    },
    /// An answer that is longer than any may be.
    #[error("{url}: the answer to {method} is longer than {bytes_max} bytes")]
    TooLong {
        /// The node.
        url: String,
        /// The method.
        method: &'static str,
        /// Bytes that it may have.
        bytes_max: usize,
    },
    /// A success of HTTP whose body is something else: the page of a proxy.
    #[error("{url}: the answer to {method} is no JSON")]
    NoJson {
        /// The node.
        url: String,
        /// The method.
        method: &'static str,
    },
    /// The answer is none of JSON-RPC, or has not the shape of the method's.
    #[error("{url}: the answer to {method} makes no sense: {detail}")]
    Senseless {
        /// The node.
        url: String,
        /// The method.
        method: &'static str,
        /// What is wrong, and where.
        detail: String,
    },
    /// The node refuses.
    #[error("{url}: {request}: error {code}: {message}")]
    Refused {
        /// The node.
        url: String,
        /// What was asked.
        request: NodeRequest,
        /// Code of the JSON-RPC error.
        code: i64,
        /// Its message.
        message: String,
    },
    /// The node has not got it.
    #[error("{url}: {request}: the node does not know it{why}")]
    Unknown {
        /// The node.
        url: String,
        /// What was asked.
        request: NodeRequest,
        /// What it says besides.
        why: String,
    },
    /// What came is not what its hash says.
    #[error("{url} gives something else than it was asked for: {request}: {detail}")]
    Lie {
        /// The node.
        url: String,
        /// What was asked.
        request: NodeRequest,
        /// How it shows.
        detail: String,
    },
}

impl NodeError {
    /// Whether it may go another time.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::TooSlow { .. } | Self::NoJson { .. } => true,
            Self::Status { status, .. } => is_later(i64::from(*status)),
            // Codes for what a server has of its own, such as -32005 of providers for too many requests; an
            // internal error; and HTTP's codes, where these stand in JSON.
            Self::Refused { code, .. } => matches!(code, -32_099..=-32_000 | -32_603) || is_later(*code),
            _ => false,
        }
    }

    /// Whether what the node says cannot be believed.
    #[must_use]
    pub fn is_wrong(&self) -> bool {
        matches!(self, Self::Lie { .. } | Self::Senseless { .. } | Self::TooLong { .. })
    }

    /// How long the node asks to wait.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { wait_s, .. } => wait_s.map(Duration::from_secs),
            _ => None,
        }
    }
}

/// Whether a status of HTTP says that it may go another time.
fn is_later(status: i64) -> bool {
    matches!(status, 408 | 429 | 500..=599)
}

/// A hash as nodes write it.
pub(crate) fn hex(hash: &Byte32) -> String {
    format!("{hash:#x}")
}
