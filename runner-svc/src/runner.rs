//! The runner and its components.

use std::sync::Arc;

use antares_config::{Config, RunnerSection};
use antares_node::NodeError;
use antares_pool::{LayerStatus, Pool};
use antares_serve::Metrics;
use tokio::sync::Semaphore;

use crate::{
    artifacts::Artifacts,
    diagnosis::diagnose::Diagnoses,
    execute::Executor,
    metrics::RunnerMetrics,
    profiles::Profiles,
    scheduler::Scheduler,
    shadow_runs::ShadowRuns,
    source::ArtifactSource,
    verify::{
        TransactionVerifier,
        attempt::Settings,
        hot_cells::{HotCells, export_hot_cells},
        hot_programs::HotPrograms,
        lookup::Lookups,
        reading::TransactionReader,
        references::Cells,
    },
};

/// Runs scripts. Cheap to clone.
#[derive(Clone)]
pub struct Runner {
    limits: Arc<RunnerSection>,
    pub(crate) executor: Arc<Executor>,
    pub(crate) verifier: Arc<TransactionVerifier>,
    pub(crate) artifacts: Arc<Artifacts>,
    pub(crate) scheduler: Arc<Scheduler>,
    pub(crate) profiles: Arc<Profiles>,
    pub(crate) cells: Arc<Cells>,
    pub(crate) metrics: Arc<RunnerMetrics>,
}

/// Why building a runner failed.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The node client cannot be built.
    #[error("node.rpc")]
    Node(#[from] NodeError),
}

impl Runner {
    /// A runner that fetches from `source` and runs in `pool`.
    ///
    /// # Errors
    /// The node's address is invalid.
    pub fn new(
        pool: Pool,
        source: Arc<dyn ArtifactSource>,
        config: &Config,
        metrics: &Metrics,
    ) -> Result<Self, BuildError> {
        let limits = &config.runner;
        let workers = limits.workers_max;
        let counts = Arc::new(RunnerMetrics::new(metrics));
        let cells = Arc::new(Cells {
            hot: HotCells::new(source.clone(), limits.hot_cells_bytes_max, limits.hot_cells_entries_max()),
            lookups: Lookups::new(config.node.as_ref(), metrics)?,
        });
        let artifacts = Artifacts::new(source, limits, metrics, &counts);
        let scheduler = Arc::new(Scheduler::new(pool, workers, limits.queue_max, &counts));
        let shadow_runs = Arc::new(ShadowRuns::new(limits.recheck_one_in, &artifacts, &scheduler, metrics));
        let diagnoses = Arc::new(Diagnoses::new(limits.workers_max, &artifacts, &scheduler, metrics));
        let profiles = Profiles::new(config, metrics, &counts);
        let executor = Arc::new(Executor {
            artifacts: artifacts.clone(),
            scheduler: scheduler.clone(),
            shadow_runs: shadow_runs.clone(),
            diagnoses: diagnoses.clone(),
            profiles: profiles.clone(),
            metrics: counts.clone(),
        });
        let reader = TransactionReader {
            places: Arc::new(Semaphore::new(workers)),
            cells: cells.clone(),
            settings: Settings { groups_apart: limits.groups_apart, sample_cycles: profiles.sample_cycles },
        };
        let verifier = Arc::new(TransactionVerifier {
            reader,
            artifacts: artifacts.clone(),
            scheduler: scheduler.clone(),
            shadow_runs,
            diagnoses,
            profiles: profiles.clone(),
            hot_programs: Arc::new(HotPrograms::new(&artifacts, &counts)),
            metrics: counts.clone(),
        });
        metrics.watch_pool("run", scheduler.pool.clone());
        let watched = cells.clone();
        export_hot_cells(metrics, move || watched.hot.stats());
        let (limits, metrics) = (Arc::new(limits.clone()), counts);
        Ok(Self { limits, executor, verifier, artifacts, scheduler, profiles, cells, metrics })
    }

    /// Configured limits.
    pub fn limits(&self) -> &RunnerSection {
        &self.limits
    }

    /// Calls that one more caller should have in progress now: two for each worker, minus those waiting.
    pub(crate) fn recommended_calls(&self) -> u32 {
        let all = self.limits.workers_max as u64 * 2;
        let free = all.saturating_sub(self.metrics.queue_depth());
        u32::try_from(free).unwrap_or(u32::MAX).max(1)
    }

    /// Sandbox layers of run workers.
    pub fn layers(&self) -> &[LayerStatus] {
        self.scheduler.pool.layers()
    }

    /// Whether the zygote is alive, so that runs are possible.
    pub fn is_ready(&self) -> bool {
        self.scheduler.pool.stats().zygote_pid.is_some()
    }

    /// Reloads the trusted keys if they changed. Reads a file.
    pub(crate) fn poll_keys(&self) {
        self.artifacts.poll_keys();
    }
}
