//! A client of Antares.
//!
//! ```no_run
//! # async fn run(elf: bytes::Bytes) -> Result<(), antares_client::Error> {
//! use antares_client::{Client, Script, v1};
//!
//! let client = Client::builder().servers(["https://antares-0:50051", "https://antares-1:50051"]).build()?;
//! let request = v1::ExecuteRequest { text_args: vec!["10".into()], ..Default::default() };
//! let answer = client.execute(Script::Elf(elf), request).await?;
//! println!("{:?}", answer.verdict);
//! # Ok(()) }
//! ```
//! A call uses the server with the fewest calls of this client in progress. All calls of `antares.v1` that
//! this client makes are idempotent: a script depends only on its input. So a call is retried if the error
//! carries a RetryInfo (after its delay), or if the server is gone (on another one); never otherwise, and
//! never beyond the call's deadline. When most calls fail, the only retry is one for a server that is gone,
//! so that clients do not keep a recovering service down. Scripts, and cell data of at least 4 KiB, are named
//! by digest, and uploaded to servers that lack them. A [`Session`] continues on another server when it loses
//! its own; each of its inputs has one answer.
//!
//! The runner, as a client of compilers, and the command line use the same parts with their own settings:
//! [`balance`], [`circuit_breaker`], [`retry`], [`resolve`], [`credentials`].
//!
//! Generated messages are in [`v1`]; `proto/antares/v1` documents them.

pub mod balance;
mod blobs;
mod call;
pub mod circuit_breaker;
mod client;
mod config;
mod connect;
pub mod credentials;
mod error;
mod kinds;
mod naming;
pub mod resolve;
pub mod retry;
mod session;
mod status;
mod upload;
mod upload_script;

pub use antares_proto::v1;
/// TLS files, PEM. A client checks them every ten seconds; later connections use their new contents.
pub use antares_tls::ClientFiles as TlsFiles;
pub use antares_tls::{TlsClient, TlsError};
pub use blobs::Blobs;
pub use client::Client;
pub use config::Builder;
pub use connect::Connector;
pub use error::Error;
pub use naming::{Naming, Script};
pub use session::{Answer, Session};
pub use upload::Upload;
pub use upload_script::{by_digest_first, uploaded};

/// Answers of a session of transactions: verdicts or errors.
pub type VerifySession = Session<Result<v1::VerifyTransactionResponse, v1::OperationError>>;
