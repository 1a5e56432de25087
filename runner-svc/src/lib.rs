//! The gRPC run service: fetch the artifact, lend a run worker, answer with the outcome.
#![forbid(unsafe_code)]

mod answers;
mod apart;
pub mod app;
mod attempt;
mod batch;
mod call_log;
mod charge;
mod compilers;
mod convert;
mod deltas;
mod diagnose;
mod diagnosis;
mod early;
#[cfg(feature = "embedded")]
pub mod embedded;
mod ended;
mod execute;
mod files_beside;
mod flight;
mod hedge;
mod hot;
mod hot_cells;
mod hot_set;
mod learn;
mod lend;
mod lessons;
mod library;
mod limits;
#[cfg(feature = "embedded")]
mod local;
mod lookup;
mod meanwhile;
mod metrics;
mod native;
mod order;
mod parts;
mod patience;
mod prepare;
mod profile_entry;
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
mod runner;
mod sampling;
mod seal;
mod second;
mod service;
mod session;
mod signed;
mod source;
mod status;
mod tenant;
mod verify;
mod verify_call;
mod verify_many;
mod verify_session;

pub use compilers::RemoteError;
#[cfg(feature = "embedded")]
pub use local::LocalSource;
pub use remote::RemoteSource;
pub use runner::{BuildError, Runner};
pub use source::{ArtifactSource, Fallback, Fetched, FetchedLibrary, SourceError, Wanted};
