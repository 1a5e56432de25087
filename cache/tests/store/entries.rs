//! Entries whose bytes are derived from their numbers, so that any process can verify them.

use std::path::Path;

use antares_cache::{Cache, CacheConfig, Put, Space};
use rand::{RngExt, SeedableRng, rngs::SmallRng};

pub(crate) const MIB: u64 = 1 << 20;

/// A small cache on any file system, without minimum sizes.
pub(crate) fn config(dir: &Path, budget_bytes: u64) -> CacheConfig {
    CacheConfig {
        allow_any_filesystem: true,
        free_bytes_min: 0,
        rebuild_bytes_min: 0,
        page_cache_bytes: MIB,
        ..CacheConfig::new(dir, budget_bytes)
    }
}

pub(crate) fn put(cache: &Cache, number: u64) -> Put {
    cache.put(Space::Artifact, key(number), &content(number)).expect("an artifact may have any key")
}

/// Whether the entry exists; panics on wrong bytes.
#[track_caller]
pub(crate) fn present(cache: &Cache, number: u64, what: &str) -> bool {
    let bytes = cache.get(Space::Artifact, key(number));
    assert!(bytes.as_ref().is_none_or(|bytes| *bytes == content(number)), "{what}: wrong bytes of {number}");
    bytes.is_some()
}

fn key(number: u64) -> [u8; 32] {
    let mut key = [0; 32];
    SmallRng::seed_from_u64(number).fill(&mut key[..]);
    key
}

fn content(number: u64) -> Vec<u8> {
    let mut random = SmallRng::seed_from_u64(!number);
    let mut bytes = vec![0; random.random_range(0..60_000)];
    random.fill(&mut bytes[..]);
    bytes
}
