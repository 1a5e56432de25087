//! The gRPC run service: fetch the artifact, lease a run worker, answer with the outcome.

pub mod app;
mod artifacts;
mod charge;
mod diagnosis;
#[cfg(feature = "embedded")]
pub mod embedded;
mod ended;
mod execute;
mod grpc;
mod limits;
mod metrics;
mod profiles;
mod race;
mod runner;
mod scheduler;
mod shadow_runs;
mod source;
mod tenant;
mod tenant_cache;
mod verify;

pub use runner::{BuildError, Runner};
pub use source::compilers::RemoteError;
#[cfg(feature = "embedded")]
pub use source::local::LocalSource;
pub use source::remote::RemoteSource;
pub use source::{ArtifactSource, Fallback, Fetched, FetchedLibrary, SourceError, Wanted};
