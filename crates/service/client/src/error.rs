//! Why there is no answer.

use std::{io, path::PathBuf};

use antares_tls::TlsError;
use tonic::Status;

use crate::status::reason;

/// Why a client cannot be made, or a call has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No server was named.
    #[error("no server is named")]
    NoServer,
    /// This is no address of a server.
    #[error("{url}: {problem}; a server is named as https://host:port or http://host:port")]
    Url {
        /// What was given.
        url: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A file cannot be read, or there is nothing useful in it.
    #[error("{}: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The files for TLS are of no use.
    #[error(transparent)]
    Tls(TlsError),
    /// Others could read the token on its way.
    #[error("{url}: a token is not sent without encryption, but to this machine: use https://")]
    TokenInTheOpen {
        /// Where it would go.
        url: String,
    },
    /// A server said no, or could not be reached, and the call was not to be made again.
    #[error("{server} answered after {attempts} attempts: {} ({:?}{})", status.message(), status.code(), describe(status))]
    Status {
        /// The server of the last attempt.
        server: String,
        /// Its status.
        status: Box<Status>,
        /// Calls that were made.
        attempts: u32,
    },
    /// An answer that makes no sense.
    #[error("{server} gave an answer that makes no sense: {problem}")]
    Protocol {
        /// Who gave it.
        server: String,
        /// What is wrong.
        problem: String,
    },
    /// Two inputs of a session that wait for their answers have the same number.
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
            TlsError::Read { path, source } => Self::file(&path, &source),
            error => Self::Tls(error),
        }
    }
}

fn describe(status: &Status) -> String {
    reason(status).map(|reason| format!(", {reason}")).unwrap_or_default()
}
