//! Fixed limits of the service.

use std::time::Duration;

/// Longest chunk of an upload and of a download, bytes.
pub(crate) const CHUNK_BYTES_MAX: u64 = 256 << 10;

/// Downloads in progress at once. Each may hold one artifact in memory.
pub(crate) const DOWNLOADS_MAX: usize = 8;

/// Digests in one FindMissing.
pub(crate) const DIGESTS_MAX: u64 = 1_000;

/// How long a refusal (malformed, beyond a limit) and the first compiler failure are remembered.
pub(crate) const REFUSED_TTL: Duration = Duration::from_secs(3_600);

/// How long the first timeout and the second lost worker of a compile are remembered.
pub(crate) const TIMEOUT_TTL: Duration = Duration::from_secs(30);

/// Queued full compiles that follow a baseline; a later run requests the others.
pub(crate) const FOLLOWERS_MAX: u64 = 64;

/// Memory for recently used entries of the shared tier, bytes.
pub(crate) const TIER_MEMORY_BYTES_MAX: u64 = 64 << 20;
