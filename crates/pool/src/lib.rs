//! Zygotes and workers: spawn, lend, time out, kill, replace; the frames between parent and child.

mod artifact;
mod error;
pub mod job;
mod pool;
mod sealed;

pub use antares_sandbox::{Layer, LayerStatus};
pub use artifact::{ArtifactError, verify_library};
pub use error::PoolError;
pub use pool::{Compiled, Pool, PoolConfig, PoolStats, Verdict, worker_path};
pub use sealed::Sealed;
