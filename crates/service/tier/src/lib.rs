//! The tiers around the local store: a memory tier above it, and below it an object store shared by many
//! servers.
//!
//! All tiers have the same entries: a [`Space`], a key and bytes. A dead or slow tier costs only its hits:
//! reads from the shared tier have a deadline and a circuit breaker, and writes go through a bounded queue
//! without blocking callers. The tier checks an object against its name and digest before it returns it. The
//! caller must verify who made the artifact.

mod breaker;
mod failure;
mod listing;
mod location;
mod memory;
mod object;
mod objects;
mod remote;
mod stats;
mod upload;

pub use antares_cache::Space;
pub use breaker::BreakerState;
pub use failure::{Failure, FailureKind, TierError};
pub use location::{LocationError, StoreLocation};
pub use memory::{Memory, memory};
pub use object::{HEAD_BYTES, Unsound};
pub use objects::{Shared, SharedConfig};
pub use remote::ListedObject;
pub use stats::{SharedStats, UploadStats};
