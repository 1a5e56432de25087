//! The gRPC run service: fetch the artifact, lend a run worker, answer with the outcome.
#![forbid(unsafe_code)]

mod apart;
pub mod app;
mod batch;
mod charge;
mod compilers;
mod convert;
mod early;
#[cfg(feature = "embedded")]
pub mod embedded;
mod execute;
mod hedge;
mod hot;
mod learn;
mod library;
mod limits;
#[cfg(feature = "embedded")]
mod local;
mod metrics;
mod patience;
mod profile_service;
mod profiles;
mod programs;
mod push;
mod quarantine;
mod queue;
mod ready;
mod recheck;
mod references;
mod remote;
mod sampling;
mod service;
mod session;
mod source;
mod status;
mod tenant;
mod verify;

pub use execute::Runner;
#[cfg(feature = "embedded")]
pub use local::LocalSource;
pub use remote::{RemoteError, RemoteSource};
pub use source::{ArtifactSource, Fallback, Fetched, FetchedLibrary, SourceError, Wanted};
