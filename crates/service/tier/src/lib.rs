//! The tiers around the local store: entries in memory above it, and below it an object store that many
//! servers share.
//!
//! An entry is the same in each tier: a [`Space`], a key and bytes. A tier that is dead or slow costs its
//! hits alone: a read from the shared one has a deadline and a breaker, and a write goes up from a bounded
//! queue that holds nobody back. What an object holds is checked against its name and its digest before it is
//! handed out; who made it is the caller's to verify.
#![forbid(unsafe_code)]

mod breaker;
mod failure;
mod found;
mod listing;
mod local;
mod memory;
mod object;
mod objects;
mod place;
mod remote;
mod stats;
mod tier;
mod upload;

pub use antares_cache::Space;
pub use breaker::BreakerState;
pub use failure::FailureKind;
pub use found::ListedObject;
pub use memory::Memory;
pub use object::{HEAD_BYTES, Unsound};
pub use objects::{Shared, SharedConfig};
pub use place::{PlaceError, StoreLocation};
pub use stats::{SharedStats, UploadStats};
pub use tier::{CacheTier, TierError};
