//! What to run, as far as it is known before fetching, and its sample points.

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
    /// The ELF bytes.
    Inline(Bytes),
}

/// A checked request.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    /// The tenant that the run is charged to.
    pub(crate) tenant: Tenant,
    pub(crate) script: Script,
    /// Everything that the worker needs.
    pub(crate) job: RunJob,
    /// Wall time of the run.
    pub(crate) run_time: Duration,
    /// Whether to repeat and compare the run.
    pub(crate) recheck: bool,
    /// Whether to explain a failure.
    pub(crate) diagnosis: bool,
}

static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
static RUNS: AtomicU64 = AtomicU64::new(0);

/// Salt for the sample points of the next run. Each run has its own: otherwise equal runs would always sample
/// the same instruction.
pub(crate) fn next_salt() -> u64 {
    KEYS.hash_one(RUNS.fetch_add(1, Ordering::Relaxed))
}
