//! The content-addressed artifact store on sled: verified on read, accounted by size, safe to throw away.
//!
//! sled is an index and a store of small chunks that may be lost at any time; the hash of the content is
//! authoritative. So an open [`Cache`] never fails a caller because of its store: a read that cannot be
//! verified is a miss. A write that cannot be made durable is rejected, and the caller still has the bytes.
//! Counters record both.
//!
//! All calls block on the disk: call them from a thread that may block.

mod account;
mod cache;
mod config;
mod entry;
mod error;
mod eviction;
mod failures;
mod incoming;
mod inner;
mod inspect;
mod layout;
mod lock;
mod manifest;
mod recover;
mod sled_store;
mod stats;
mod store;
mod upkeep;

pub use account::Listed;
pub use cache::{Cache, Pinned, Put, Rejection};
pub use config::{CacheConfig, DEFAULT_BUDGET_BYTES};
pub use entry::{Owner, Space};
pub use error::{CacheError, StoreError};
pub use incoming::Incoming;
pub use manifest::Failure;
pub use stats::{CacheState, CacheStats, PerSpace};
