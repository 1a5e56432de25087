//! Errors of clients and calls.

use std::{io, path::PathBuf};

use antares_tls::TlsError;
use tonic::Status;

use crate::status::reason;

/// Why building a client or a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No server was given.
    #[error("no server is named")]
    NoServer,
    /// The URL of a server is invalid.
    #[error("{url}: {problem}; a server is named as https://host:port or http://host:port")]
    Url {
        /// The URL as given.
        url: String,
        problem: String,
    },
    /// A file cannot be read, or is invalid.
    #[error("{}: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Its problem.
        problem: String,
    },
    /// The TLS files are invalid.
    #[error(transparent)]
    Tls(TlsError),
    /// The token would travel unencrypted.
    #[error("{url}: a token is not sent without encryption, but to this machine: use https://")]
    TokenInTheOpen {
        /// Destination of the token.
        url: String,
    },
    /// A server refused or was unreachable, and the call is not retried.
    #[error("{server} answered after {attempts} attempts: {} ({:?}{})", status.message(), status.code(), describe(status))]
    Status {
        /// The server of the last attempt.
        server: String,
        status: Box<Status>,
        /// Calls made.
        attempts: u32,
    },
    /// An invalid response.
    #[error("{server} gave an answer that makes no sense: {problem}")]
    Protocol {
        /// The server that sent it.
        server: String,
        problem: String,
    },
    /// Two unanswered inputs of a session have the same number.
    #[error("two inputs that wait for their answers have the number {id}")]
    SameId {
        /// The number.
        id: u64,
    },
}

impl Error {
    pub(crate) fn file(path: &std::path::Path, error: &io::Error) -> Self {
        Self::File { path: path.to_owned(), problem: error.to_string() }
    }
}

impl From<TlsError> for Error {
    fn from(error: TlsError) -> Self {
        match error {
            TlsError::Read(path, source) => Self::file(&path, &source),
            error => Self::Tls(error),
        }
    }
}

fn describe(status: &Status) -> String {
    reason(status).map(|reason| format!(", {reason}")).unwrap_or_default()
}
