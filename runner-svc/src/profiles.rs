//! Where the cycles of all runs were spent: stored, served, pushed.

pub(crate) mod deltas;
pub(crate) mod entry;
pub(crate) mod push;
pub(crate) mod store;

use std::{num::NonZeroU64, sync::Arc};

use antares_abi::Sha256Digest;
use antares_config::{Config, ProfilePush};
use antares_serve::Metrics;

use crate::{
    ended::Ended,
    limits::PROFILE_AGE_MAX,
    metrics::{RunnerMetrics, export_profiles},
    profiles::{
        entry::{ProfileKey, RunCycles},
        store::ProfileStore,
    },
};

/// Collects the samples of runs, if they are sampled.
pub(crate) struct Profiles {
    /// Cycles between two samples; 0 disables sampling.
    pub(crate) sample_cycles: u64,
    pub(crate) store: ProfileStore,
    pub(crate) push: Option<ProfilePush>,
    metrics: Arc<RunnerMetrics>,
}

impl Profiles {
    pub(crate) fn new(config: &Config, metrics: &Metrics, counts: &Arc<RunnerMetrics>) -> Arc<Self> {
        let profiles = Arc::new(Self {
            sample_cycles: config.runner.sample_cycles.map_or(0, NonZeroU64::get),
            store: ProfileStore::new(PROFILE_AGE_MAX, config.profile_push.is_some()),
            push: config.profile_push.clone(),
            metrics: counts.clone(),
        });
        let watched = profiles.clone();
        export_profiles(metrics, move || watched.store.stats());
        profiles
    }

    /// Adds a run to the profiles.
    pub(crate) fn keep_run(&self, tenant: &Arc<str>, script: Sha256Digest, ended: &Ended) {
        if let Ended::Reported(report) = ended {
            let (cycles, native_cycles) = (report.cycles, report.native_cycles);
            let run = RunCycles { samples: report.samples.as_ref(), cycles, native_cycles };
            self.keep_samples(tenant, Some(script), run);
        }
    }

    /// Adds cycles to the profiles, with their samples if any.
    pub(crate) fn keep_samples(&self, tenant: &Arc<str>, script: Option<Sha256Digest>, run: RunCycles<'_>) {
        if self.sample_cycles == 0 {
            return;
        }
        let key = ProfileKey { tenant: tenant.clone(), script };
        let wrong = self.store.add(&key, run);
        self.metrics.record_samples(run.samples.is_some(), wrong);
        if wrong > 0 {
            tracing::error!(wrong, cycles = run.cycles, "the samples of a run do not add up to its cycles");
        }
    }
}
