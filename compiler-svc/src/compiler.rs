//! The service without gRPC: scripts in, artifacts out, each compiled once and stored. The runner uses it
//! directly when both share a process.

use std::sync::Arc;

use antares_abi::ArtifactKey;
use antares_cache::Cache;
use antares_config::{CompilerSection, millis};
use antares_pool::{LayerStatus, Pool};
use antares_serve::{Account, Metrics, OnDrop, Repeats, SingleFlight, chain};
use antares_trust::Trust;
use tokio::sync::{Mutex, Semaphore};

use crate::{
    artifact::{Artifact, CompileError},
    follow::Followers,
    metrics::CompilerMetrics,
    operations::Operations,
    order::Order,
    owned_bytes::Owned,
    signed::Signing,
    tiers::Tiers,
    uploads::Uploads,
};

/// Concurrent baseline compiles, in addition to the workers for full ones.
pub(crate) const QUICK_WORKERS: usize = 1;

/// How often a caller rejoins after a compile that failed on another tenant's quota.
const JOINS_MAX: usize = 16;

/// The compiler service for one tenant. Cheap to clone.
#[derive(Clone)]
pub struct Compiler {
    pub(crate) shared: Arc<Shared>,
    /// The caller's account.
    pub(crate) account: Account,
    /// What happens to an unfinished compile when this caller is the last to go away.
    pub(crate) leaving: OnDrop,
}

pub(crate) struct Shared {
    pub(crate) cache: Cache,
    pub(crate) tiers: Tiers,
    pub(crate) pool: Pool,
    /// Serializes changes of hints.
    pub(crate) learning: Mutex<()>,
    pub(crate) signing: Signing,
    pub(crate) limits: CompilerSection,
    pub(crate) slots: Arc<Semaphore>,
    /// Slots of baseline compiles, which never wait for others.
    pub(crate) quick_slots: Arc<Semaphore>,
    flights: SingleFlight<ArtifactKey, Result<Arc<Artifact>, CompileError>>,
    pub(crate) followers: Followers,
    pub(crate) owned: Owned,
    pub(crate) uploads: Arc<Uploads>,
    pub(crate) operations: Operations,
    pub(crate) metrics: CompilerMetrics,
    pub(crate) again: Repeats,
}

impl Compiler {
    /// A compiler that stores in `cache` and runs in `pool`.
    pub(crate) fn new(
        (cache, tiers): (Cache, Tiers),
        pool: Pool,
        signing: Signing,
        limits: &CompilerSection,
        metrics: &Metrics,
    ) -> Self {
        let help = "Compiles that were made again, by whether the library was the same.";
        let recompiles = ("antares_recompiles_total", help);
        let workers = limits.workers_max;
        let shared = Shared {
            metrics: CompilerMetrics::new(metrics),
            again: Repeats::new(limits.recompile_one_in, 1, metrics, recompiles),
            cache,
            tiers,
            pool,
            learning: Mutex::default(),
            signing,
            limits: limits.clone(),
            slots: Arc::new(Semaphore::new(workers)),
            quick_slots: Arc::new(Semaphore::new(QUICK_WORKERS)),
            followers: Followers::new(workers),
            owned: Owned::default(),
            uploads: Uploads::new(limits, metrics),
            operations: Operations::default(),
            flights: SingleFlight::default(),
        };
        let (account, leaving) = (Account::nobody(), OnDrop::GoesOn);
        let compiler = Self { shared: Arc::new(shared), account, leaving };
        compiler.export(metrics);
        compiler
    }

    /// Configured limits.
    pub fn limits(&self) -> &CompilerSection {
        &self.shared.limits
    }

    /// The store, for operators.
    pub(crate) fn cache(&self) -> &Cache {
        &self.shared.cache
    }

    /// Sandbox layers of compile workers.
    pub fn layers(&self) -> &[LayerStatus] {
        self.shared.pool.layers()
    }

    /// Whether the zygote is alive and the cache is writable, so that compiles are possible. Checks the disk.
    pub fn is_ready(&self) -> bool {
        let is_well = self.shared.cache.state().is_well();
        is_well && self.shared.pool.stats().zygote_pid.is_some()
    }

    /// The keys that sign and are trusted here.
    pub fn trust(&self) -> Arc<Trust> {
        self.shared.signing.trust.clone()
    }

    /// Reloads changed keys. Reads a file.
    pub(crate) fn poll_keys(&self) {
        match self.shared.signing.trust.poll() {
            Ok(true) => tracing::info!("the keys of native code have changed"),
            Ok(false) => {}
            Err(error) => {
                let error = chain(&error);
                tracing::error!(error, "changed keys are invalid; the old ones stay in force");
            }
        }
    }

    /// The artifact for `order`; concurrent equal orders share one compile.
    pub(crate) async fn join(&self, order: Order) -> Result<Arc<Artifact>, CompileError> {
        let key = order.storage_key();
        for _ in 0..JOINS_MAX {
            let (shared, mine) = (self.shared.clone(), order.clone());
            let work = || async move {
                let made = shared.find_or_make(&mine).await;
                made.inspect(|artifact| shared.compile_again(&mine, artifact))
            };
            match self.shared.flights.join_until(key, self.leaving, work).await {
                // Another tenant's quota; the next flight may be charged to ours.
                Some(Err(CompileError::Quota(_))) if order.account.may_compile().is_ok() => {}
                Some(joined) => return joined,
                None => {
                    tracing::error!(%key, "the task of a compile panicked");
                    return Err(CompileError::Internal);
                }
            }
        }
        Err(CompileError::Busy(millis(self.shared.limits.queue_time_max)))
    }

    fn export(&self, metrics: &Metrics) {
        let shared = self.shared.clone();
        self.shared.metrics.export_cache(metrics, move || shared.cache.stats());
        metrics.watch_pool("compile", self.shared.pool.clone());
        let shared = self.shared.clone();
        let help = "Calls that found their compile in progress already.";
        let joins = [("antares_compile_joins_total", help, (|now| *now) as fn(&u64) -> u64)];
        metrics.watch(joins, move || shared.flights.joined_total());
    }
}
