//! What to run, as far as it is known before anything is fetched, and which sample points it has.

use std::{
    hash::{BuildHasher as _, RandomState},
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use antares_abi::Sha256Digest;
use antares_pool::job::RunJob;
use bytes::Bytes;

use crate::tenant::Tenant;

/// What to run.
#[derive(Clone, Debug)]
pub(crate) enum Script {
    /// A stored script.
    Stored(Sha256Digest),
    /// The ELF itself.
    Inline(Bytes),
}

/// A request, checked.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    /// For whom.
    pub(crate) tenant: Tenant,
    pub(crate) script: Script,
    /// Everything that the worker needs to know.
    pub(crate) job: RunJob,
    /// Wall time of the run.
    pub(crate) run_time: Duration,
    /// Whether the caller wants it run again, and compared.
    pub(crate) recheck: bool,
    /// Whether the caller wants to know why it failed, if it does.
    pub(crate) diagnosis: bool,
}

static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
static RUNS: AtomicU64 = AtomicU64::new(0);

/// What the sample points of the next run follow from. Every run has its own: otherwise equal runs would show
/// one instruction for ever.
pub(crate) fn next_salt() -> u64 {
    KEYS.hash_one(RUNS.fetch_add(1, Ordering::Relaxed))
}
