//! Limits of the service that no key sets.

use std::time::Duration;

/// Longest chunk of an upload and of a download, bytes.
pub(crate) const CHUNK_BYTES_MAX: u64 = 256 << 10;

/// Downloads in progress at once. Each may hold one artifact in memory.
pub(crate) const DOWNLOADS_MAX: usize = 8;

/// Digests in one FindMissing.
pub(crate) const DIGESTS_MAX: u64 = 1_000;

/// How long a refusal (malformed, beyond a limit) is remembered, and a compile in which the compiler failed the
/// first time.
pub(crate) const REFUSED_TTL: Duration = Duration::from_secs(3_600);

/// How long a compile that took too long the first time, or lost its worker for the second time, is remembered.
pub(crate) const TIMEOUT_TTL: Duration = Duration::from_secs(30);

/// Full compiles that follow a baseline and wait for their turn; a later run requests those beyond.
pub(crate) const FOLLOWERS_MAX: u64 = 64;

/// Memory for entries of the shared tier that were used lately, bytes.
pub(crate) const TIER_MEMORY_BYTES_MAX: u64 = 64 << 20;
