//! The runner, and what all its calls share.

use std::sync::{Arc, atomic::AtomicU64};

use antares_abi::{ArtifactKey, Sha256Digest};
use antares_config::{Config, ProfilePush, RunnerSection};
use antares_node::NodeError;
use antares_pool::{LayerStatus, Pool, Sealed};
use antares_serve::{Flights, Metrics, chain};
use antares_trust::KeyError;
use prometheus::IntCounterVec;
use tokio::sync::Semaphore;

use crate::{
    diagnosis::Diagnoses,
    early::Early,
    hot::Hot,
    hot_cells::{HotCells, export_hot_cells},
    learn::Learnt,
    lookup::Lookups,
    metrics::RunnerMetrics,
    native::HintedNative,
    patience::Patience,
    profiles::Profiles,
    queue::Queue,
    ready::Ready,
    recheck::Recheck,
    signed::VerdictKeys,
    source::{ArtifactSource, SourceError},
};

/// Runs scripts. Cheap to clone.
#[derive(Clone)]
pub struct Runner {
    pub(crate) shared: Arc<Shared>,
}

/// What all calls share. What is done with it stands where it is done.
pub(crate) struct Shared {
    pub(crate) pool: Pool,
    pub(crate) source: Arc<dyn ArtifactSource>,
    /// Of the keys that what is ready was verified with.
    pub(crate) generation: AtomicU64,
    pub(crate) refused: IntCounterVec,
    pub(crate) limits: RunnerSection,
    pub(crate) slots: Arc<Queue>,
    /// Transactions that are read at once: each takes several times its bytes meanwhile.
    pub(crate) reading: Arc<Semaphore>,
    pub(crate) patience: Patience,
    pub(crate) hot: Hot,
    pub(crate) hot_cells: HotCells,
    pub(crate) ready: Ready,
    pub(crate) scripts: Flights<Sha256Digest, Result<Arc<Sealed>, SourceError>>,
    pub(crate) learnt: Learnt,
    pub(crate) early: Early,
    /// By the full tier's key, and the key of what is at hand.
    pub(crate) libraries:
        Flights<(ArtifactKey, Option<ArtifactKey>), Result<Option<HintedNative>, SourceError>>,
    pub(crate) metrics: RunnerMetrics,
    pub(crate) recheck: Recheck,
    pub(crate) diagnoses: Diagnoses,
    pub(crate) profiles: Profiles,
    pub(crate) push: Option<ProfilePush>,
    pub(crate) verdict_keys: VerdictKeys,
    pub(crate) lookups: Lookups,
}

/// Why there is no runner.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The keys that sign verdicts are of no use.
    #[error("verdict.keys")]
    Verdicts(#[from] KeyError),
    /// The node cannot be asked.
    #[error("node.rpc")]
    Node(#[from] NodeError),
}

impl Runner {
    /// A runner that gets things from `source` and works in `pool`.
    ///
    /// # Errors
    /// The keys that sign verdicts are of no use, or the node's address is.
    pub fn new(
        pool: Pool,
        source: Arc<dyn ArtifactSource>,
        config: &Config,
        metrics: &Metrics,
    ) -> Result<Self, BuildError> {
        let limits = &config.runner;
        let workers = limits.workers_max;
        let shared = Arc::new(Shared {
            slots: Arc::new(Queue::new(workers, limits.queue_max)),
            reading: Arc::new(Semaphore::new(workers)),
            patience: Patience::default(),
            hot: Hot::new(),
            hot_cells: HotCells::new(
                source.clone(),
                limits.hot_cells_bytes_max,
                limits.hot_cells_entries_max,
            ),
            ready: Ready::new(
                limits.ready_bytes_max,
                usize::try_from(limits.ready_entries_max).unwrap_or(usize::MAX),
            ),
            profiles: Profiles::new(limits.profile_keep, config.profile_push.is_some()),
            push: config.profile_push.clone(),
            verdict_keys: VerdictKeys::open(config.verdict_keys.clone())?,
            lookups: Lookups::new(config.node.as_ref(), metrics)?,
            scripts: Flights::default(),
            learnt: Learnt::default(),
            early: Early::default(),
            libraries: Flights::default(),
            metrics: RunnerMetrics::new(metrics),
            recheck: Recheck::new(limits.recheck_one_in, metrics),
            diagnoses: Diagnoses::new(limits.workers_max, metrics),
            limits: limits.clone(),
            pool,
            generation: AtomicU64::new(source.trust().map_or(0, |trust| trust.generation())),
            refused: crate::metrics::refused_artifacts(metrics),
            source,
        });
        let watched = shared.clone();
        metrics.watch_workers("run", move || crate::metrics::worker_numbers(&watched.pool));
        let watched = shared.clone();
        shared.metrics.export_ready(metrics, move || watched.ready.stats());
        let watched = shared.clone();
        export_hot_cells(metrics, move || watched.hot_cells.stats());
        let watched = shared.clone();
        shared.metrics.export_profiles(metrics, move || watched.profiles.stats());
        let layers = shared.pool.layers().iter().map(|status| (status.layer.name(), status.active));
        metrics.sandbox_layers("run", layers);
        Ok(Self { shared })
    }

    /// Limits as configured.
    #[must_use]
    pub fn limits(&self) -> &RunnerSection {
        &self.shared.limits
    }

    /// Calls that one more caller does well to have in progress now: two for each worker, less those that
    /// wait.
    pub(crate) fn recommended_calls(&self) -> u32 {
        let all = self.shared.limits.workers_max as u64 * 2;
        let free = all.saturating_sub(self.shared.metrics.queue_depth());
        u32::try_from(free).unwrap_or(u32::MAX).max(1)
    }

    /// The fence around run workers.
    #[must_use]
    pub fn layers(&self) -> &[LayerStatus] {
        self.shared.pool.layers()
    }

    /// Whether runs can be made now: the zygote is there.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.shared.pool.stats().zygote_pid.is_some()
    }

    /// Takes trusted keys that have changed. Reads a file.
    pub(crate) fn look_at_keys(&self) {
        if let Some(Err(error)) = self.shared.source.trust().map(|trust| trust.look()) {
            tracing::error!(error = chain(&error), "changed keys are of no use; the old ones stay in force");
        }
        self.shared.verdict_keys.look();
    }
}
