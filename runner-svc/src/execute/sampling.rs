//! Which sample points runs have.

use std::{
    hash::{BuildHasher as _, RandomState},
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
};

static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
static RUNS: AtomicU64 = AtomicU64::new(0);

/// What the sample points of the next run follow from. Every run has its own: otherwise equal runs would show
/// one instruction for ever.
pub(crate) fn next_salt() -> u64 {
    KEYS.hash_one(RUNS.fetch_add(1, Ordering::Relaxed))
}
