//! Which sample points runs have, and what becomes of their samples.

use std::{
    hash::{BuildHasher as _, RandomState},
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU64, Ordering},
    },
};

use antares_abi::Sha256Digest;
use antares_pool::job::Samples;

use crate::{
    execute::{Ended, Shared},
    profiles::{ProfileKey, Told},
};

static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
static RUNS: AtomicU64 = AtomicU64::new(0);

/// What the sample points of the next run follow from. Every run has its own: otherwise equal runs would show one instruction
/// for ever.
pub(crate) fn next_salt() -> u64 {
    KEYS.hash_one(RUNS.fetch_add(1, Ordering::Relaxed))
}

impl Shared {
    /// Adds a run to the profiles.
    pub(crate) fn keep_profile(&self, tenant: &Arc<str>, script: Sha256Digest, ended: &Ended) {
        if let Ended::Reported(report) = ended {
            let cycles = (report.cycles, report.native_cycles);
            self.keep_samples(tenant, Some(script), report.samples.as_ref(), cycles);
        }
    }

    /// Adds cycles to the profiles, with the samples that there are of them; the second number is how many of them could be
    /// sampled.
    pub(crate) fn keep_samples(
        &self,
        tenant: &Arc<str>,
        script: Option<Sha256Digest>,
        samples: Option<&Samples>,
        (cycles, native_cycles): (u64, u64),
    ) {
        if self.limits.sample_cycles == 0 {
            return;
        }
        let key = ProfileKey { tenant: tenant.clone(), script };
        let wrong = self.profiles.add(&key, Told { samples, cycles, native_cycles });
        self.metrics.note_samples(samples.is_some(), wrong);
        if wrong > 0 {
            tracing::error!(wrong, cycles, "the samples of a run do not add up to its cycles");
        }
    }
}
