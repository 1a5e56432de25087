//! The service without gRPC: scripts in, artifacts out, each compiled once and kept. The runner uses it directly where
//! both run in one process.

use std::sync::Arc;

use antares_abi::{ArtifactKey, CodeTier, CompileOptions, Sha256Digest};
use antares_cache::{Cache, Put, Space};
use antares_pool::{LayerStatus, Pool, Sealed, job::CompileSummary, verify_library};
use antares_serve::{Account, Fault, Flights, Leaving, Metrics, RawCompiler, chain, script_mistake};
use antares_trust::{Facts, Refusal, Trust};
use bytes::Bytes;
use tokio::sync::{Mutex, Semaphore};
use tracing::Instrument;

use crate::{
    again::Again,
    blocking::{Panicked, blocking},
    failing::FailingCompiles,
    follow::Followers,
    metrics::CompilerMetrics,
    operations::Operations,
    order::Order,
    owned::Owned,
    signed::{Signing, join, split},
    tiers::{Origin, Tiers},
    uploads::Uploads,
    work::WorkError,
};

/// Baseline compiles at once, beside the workers for full ones.
pub(crate) const QUICK_WORKERS: usize = 1;

/// Times that a caller joins compiles that end by the quotas of others.
const JOINS_MAX: usize = 16;

/// An artifact and where it came from.
#[derive(Clone, Debug)]
pub struct Artifact {
    /// Its key.
    pub key: ArtifactKey,
    /// Which generator made it.
    pub tier: CodeTier,
    /// Digest of the hints that it was made with, if there were some.
    pub hints: Option<Sha256Digest>,
    /// The shared object, sealed and checked.
    pub library: Arc<Sealed>,
    /// What was signed about it.
    pub manifest: Bytes,
    /// How it was made, if it was made now and not found in the cache.
    pub made: Option<CompileSummary>,
    /// Whether it is in the cache.
    pub stored: bool,
}

/// Why there is no artifact. Cloned to everybody who waited for it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// The script is not stored.
    #[error("script {0} is not stored")]
    ScriptNotFound(Sha256Digest),
    /// The script cannot be compiled, now or later.
    #[error("{reason}: {detail}")]
    Refused {
        /// From the closed set of `CompileReport::Refused`, `worker_lost` or `revoked`.
        reason: String,
        /// What and where.
        detail: String,
    },
    /// The compile took longer than it may.
    #[error("the compile took more than {wall_ms_max} ms")]
    Timeout {
        /// What it may take.
        wall_ms_max: u64,
    },
    /// No worker came free in time.
    #[error("no compile worker came free in {queue_ms_max} ms")]
    Busy {
        /// How long it waited.
        queue_ms_max: u64,
    },
    /// The worker died.
    #[error("the compile worker was lost: {detail}")]
    WorkerLost {
        /// What is known about it.
        detail: String,
    },
    /// The worker was stopped by the fence.
    #[error("the compile worker broke a rule of the fence: {detail}")]
    Violation {
        /// What is known about it.
        detail: String,
    },
    /// The compiler failed, or what it gave is not a library of ours.
    #[error("the compiler failed: {detail}")]
    Failed {
        /// What is known about it.
        detail: String,
    },
    /// The tenant that asked has used up its quota.
    #[error("{}", .0.message())]
    Quota(Fault),
    /// A fault of ours beside the compiler; the log has the particulars.
    #[error("internal error")]
    Internal,
}

impl CompileError {
    /// Whether the same compile without hints may go well: it has less to do.
    pub(crate) fn may_be_of_hints(&self) -> bool {
        matches!(
            self,
            Self::Refused { .. } | Self::Timeout { .. } | Self::WorkerLost { .. } | Self::Failed { .. }
        )
    }
}

/// The compiler service as one tenant has it. Cheap to clone.
#[derive(Clone)]
pub struct Compiler {
    pub(crate) shared: Arc<Shared>,
    /// Whose calls it answers.
    pub(crate) account: Account,
    /// What becomes of a compile that nobody waits for any more, when it was this caller that left it.
    pub(crate) leaving: Leaving,
}

pub(crate) struct Shared {
    pub(crate) cache: Cache,
    pub(crate) tiers: Tiers,
    pub(crate) pool: Pool,
    /// Hints change one after another.
    pub(crate) learning: Mutex<()>,
    pub(crate) signing: Signing,
    pub(crate) limits: RawCompiler,
    pub(crate) slots: Arc<Semaphore>,
    /// Of baseline compiles, which never wait for others.
    pub(crate) quick_slots: Arc<Semaphore>,
    flights: Flights<ArtifactKey, Result<Arc<Artifact>, CompileError>>,
    pub(crate) followers: Followers,
    pub(crate) owned: Owned,
    pub(crate) uploads: Arc<Uploads>,
    pub(crate) operations: Operations,
    pub(crate) metrics: CompilerMetrics,
    pub(crate) again: Again,
    pub(crate) failing: FailingCompiles,
}

impl Compiler {
    /// A compiler that keeps things in `cache` and works in `pool`.
    #[must_use]
    pub(crate) fn new(
        (cache, tiers): (Cache, Tiers),
        pool: Pool,
        signing: Signing,
        limits: &RawCompiler,
        metrics: &Metrics,
    ) -> Self {
        let workers = usize::try_from(limits.workers_max).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
        let shared = Shared {
            metrics: CompilerMetrics::new(metrics),
            again: Again::new(limits.recompile_one_in, metrics),
            failing: FailingCompiles::default(),
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
            flights: Flights::default(),
        };
        let (account, leaving) = (Account::nobody(), Leaving::GoesOn);
        let compiler = Self { shared: Arc::new(shared), account, leaving };
        compiler.export(metrics);
        compiler
    }

    /// Limits as configured.
    #[must_use]
    pub fn limits(&self) -> &RawCompiler {
        &self.shared.limits
    }

    /// The store, for operators.
    pub(crate) fn cache(&self) -> &Cache {
        &self.shared.cache
    }

    /// The fence around compile workers.
    #[must_use]
    pub fn layers(&self) -> &[LayerStatus] {
        self.shared.pool.layers()
    }

    /// Whether compiles can be made now, and scripts be kept: the zygote is there, and so is the cache. Looks at the disk.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let is_well = self.shared.cache.state().is_well();
        is_well && self.shared.pool.stats().zygote_pid.is_some()
    }

    /// The keys that sign and are trusted here.
    #[must_use]
    pub fn trust(&self) -> Arc<Trust> {
        self.shared.signing.trust.clone()
    }

    /// Takes keys that have changed. Reads a file.
    pub(crate) fn look_at_keys(&self) {
        match self.shared.signing.trust.look() {
            Ok(true) => tracing::info!("the keys of native code have changed"),
            Ok(false) => {}
            Err(error) => {
                let error = chain(&error);
                tracing::error!(error, "changed keys are of no use; the old ones stay in force");
            }
        }
    }

    /// The full tier's artifact of a script: found in the cache, or compiled and stored. `elf` spares reading the script where the
    /// caller has its bytes; they must be those of `script`.
    ///
    /// # Errors
    /// There is none; the same for all who waited.
    pub async fn compile(
        &self,
        script: Sha256Digest,
        options: CompileOptions,
        elf: Option<Bytes>,
    ) -> Result<Arc<Artifact>, CompileError> {
        self.may_ask(script, elf.as_ref())?;
        let order = Order::new(&self.account, script, options, CodeTier::Full, elf);
        let hints = self.hints(script, options).await?;
        match self.join(order.clone().hinted(&hints)).await {
            Err(error) if !hints.is_empty() && error.may_be_of_hints() => self.join(order).await,
            joined => joined,
        }
    }

    /// The artifact that `order` asks for; equal orders at the same time are one.
    pub(crate) async fn join(&self, order: Order) -> Result<Arc<Artifact>, CompileError> {
        let key = order.kept_key();
        for _ in 0..JOINS_MAX {
            let (shared, mine) = (self.shared.clone(), order.clone());
            let work = || async move {
                let made = shared.find_or_make(&mine).await;
                made.inspect(|artifact| shared.compile_again(&mine, artifact))
            };
            match self.shared.flights.join_until(key, self.leaving, work).await {
                // Somebody else's quota; the next flight may be ours.
                Some(Err(CompileError::Quota(_))) if order.account.may_compile().is_ok() => {}
                Some(joined) => return joined,
                None => {
                    tracing::error!(%key, "the task of a compile panicked");
                    return Err(CompileError::Internal);
                }
            }
        }
        let busy = CompileError::Busy { queue_ms_max: self.shared.limits.queue_ms_max };
        Err(busy)
    }

    fn export(&self, metrics: &Metrics) {
        let shared = self.shared.clone();
        self.shared.metrics.export_cache(metrics, move || shared.cache.stats());
        let shared = self.shared.clone();
        metrics.watch_workers("compile", move || crate::metrics::worker_numbers(&shared.pool));
        let layers = self.layers().iter().map(|status| (status.layer.name(), status.active));
        metrics.sandbox_layers("compile", layers);
        self.shared.failing.export(metrics);
        let shared = self.shared.clone();
        self.shared.metrics.export_joins(metrics, move || shared.flights.joined_total());
    }
}

impl Shared {
    async fn find_or_make(&self, order: &Order) -> Result<Arc<Artifact>, CompileError> {
        if let Some(artifact) = self.find(order).await? {
            return Ok(Arc::new(artifact));
        }
        if let Some(error) = self.withheld(order).await? {
            return Err(error);
        }
        order.account.may_compile().map_err(CompileError::Quota)?;
        let elf = self.elf_of(order).await?;
        let span =
            tracing::info_span!("compile", script = %order.script, key = %order.key, tier = %order.tier);
        let under_way = self.metrics.begin(order.tier);
        let made = self.make(order, elf).instrument(span).await;
        under_way.end(&made);
        match &made {
            Ok(artifact) => {
                self.failing.made(order);
                let compile_ms = artifact.made.map(|made| made.compile_ms);
                let (bytes, stored) = (artifact.library.len(), artifact.stored);
                let tier = order.tier.name();
                tracing::info!(script = %order.script, key = %order.key, tier, compile_ms, bytes, stored, "compiled");
                if let Some(functions) =
                    artifact.made.map(|made| made.unproved_functions).filter(|&some| some > 0)
                {
                    tracing::error!(script = %order.script, key = %order.key, tier, functions, "the verifier refused the optimized form; compiled from the plain one");
                }
                if let Some(blocks) = artifact.made.map(|made| made.refused_orders).filter(|&some| some > 0) {
                    tracing::error!(script = %order.script, key = %order.key, tier, blocks, "the scheduler's order was refused; these blocks keep LLVM's");
                }
            }
            Err(error) => {
                self.failing.log(order, error);
                self.remember(order, error).await;
            }
        }
        made
    }

    /// The bytes of the script, which may be one.
    pub(crate) async fn elf_of(&self, order: &Order) -> Result<Bytes, CompileError> {
        let elf = match &order.elf {
            Some(elf) => elf.clone(),
            None => {
                let found = self.script_bytes(order.script).await?;
                found.ok_or(CompileError::ScriptNotFound(order.script))?
            }
        };
        match script_mistake(&elf) {
            Some(mistake) => {
                Err(CompileError::Refused { reason: "elf".to_owned(), detail: format!("it {mistake}") })
            }
            None => Ok(elf),
        }
    }

    /// The stored artifact, if there is one and it is a library of ours. Anything else is a miss.
    pub(crate) async fn find(&self, order: &Order) -> Result<Option<Artifact>, CompileError> {
        let (key, tier, hints) = (order.key, order.tier, order.hints.digest());
        let kept = order.kept_key();
        let found = match tier {
            // Made again sooner than it is fetched.
            CodeTier::Baseline => self.here(Space::Artifact, kept).await?.map(|entry| (entry, Origin::Here)),
            CodeTier::Full => self.look(Space::Artifact, kept).await?,
        };
        let Some((entry, origin)) = found else { return Ok(None) };
        let Some((bytes, manifest)) = split(&entry) else {
            self.drop_refused(kept, Refusal::Malformed).await;
            return Ok(None);
        };
        let (trusted, script) = (self.signing.trust.keyring(), order.script);
        let is_believed = origin == Origin::Shared && self.tiers.trusts_writers();
        let checked = blocking(move || {
            let library = Sealed::new("antares-library", &bytes).map_err(WorkError::Seal)?;
            let facts = Facts { key, script, digest: library.digest(), length: library.len() };
            if is_believed {
                trusted.verify_unsigned(&manifest, &facts)?;
            } else {
                trusted.verify(&manifest, &facts)?;
            }
            verify_library(&library, facts.digest)?;
            Ok::<_, WorkError>((facts, Arc::new(library), manifest))
        });
        match checked.await {
            Ok(Ok((facts, library, manifest))) => {
                // What others have signed is ours from here on.
                let (manifest, entry) = if is_believed {
                    let manifest = self.signing.sign(&facts);
                    let entry =
                        join(&library, &manifest).map_err(|error| internal("read a library", &error))?;
                    (manifest, entry)
                } else {
                    (manifest, entry)
                };
                if origin == Origin::Shared {
                    self.fill(Space::Artifact, kept, entry);
                }
                Ok(Some(Artifact { key, tier, hints, library, manifest, made: None, stored: true }))
            }
            Ok(Err(WorkError::Refused(refusal))) => {
                self.drop_refused(kept, refusal).await;
                Ok(None)
            }
            Ok(Err(WorkError::Library(error))) => {
                tracing::error!(%key, error = chain(&error), "a stored artifact is not one of ours");
                Ok(None)
            }
            Ok(Err(error)) if error.is_for_now() => {
                Err(CompileError::Busy { queue_ms_max: self.limits.queue_ms_max })
            }
            Ok(Err(error)) => Err(internal("check a stored artifact", &error)),
            Err(Panicked) => Err(CompileError::Internal),
        }
    }

    /// Makes room for one that is ours.
    async fn drop_refused(&self, key: ArtifactKey, refusal: Refusal) {
        self.signing.note(refusal);
        tracing::error!(%key, reason = refusal.name(), "a stored artifact is refused");
        self.tiers.forget(Space::Artifact, key.0);
        let cache = self.cache.clone();
        // If it stays, the next call refuses it again.
        let _ = blocking(move || cache.remove(Space::Artifact, key.0)).await;
    }

    async fn make(&self, order: &Order, elf: Bytes) -> Result<Arc<Artifact>, CompileError> {
        let (summary, library) = self.work(order, elf).await?;
        self.signing.allows(&summary.sha256, &order.script)?;
        let cache = self.cache.clone();
        let (key, kept, script, digest) = (order.key, order.kept_key(), order.script, summary.sha256);
        let manifest = self.signing.sign(&Facts { key, script, digest, length: library.len() });
        let signed = manifest.clone();
        let library = Arc::new(library);
        let sealed = library.clone();
        let kept = blocking(move || {
            let entry = join(&sealed, &signed)?;
            let put = cache.put(Space::Artifact, kept.0, &entry);
            Ok::<_, std::io::Error>((entry, put))
        });
        let (entry, put) = match kept.await {
            Ok(Ok(kept)) => kept,
            Ok(Err(error)) => return Err(internal("read a library", &error)),
            Err(Panicked) => return Err(CompileError::Internal),
        };
        if order.tier == CodeTier::Full {
            self.tiers.offer(Space::Artifact, order.kept_key().0, entry);
        }
        // A store that cannot take it does not fail the compile: the artifact is handed out all the same.
        let stored = matches!(put, Ok(Put::Stored | Put::AlreadyThere));
        let (tier, hints) = (order.tier, order.hints.digest());
        Ok(Arc::new(Artifact { key, tier, hints, library, manifest, made: Some(summary), stored }))
    }
}

pub(crate) fn internal(step: &'static str, error: &dyn std::error::Error) -> CompileError {
    tracing::error!(step, error = chain(error), "internal error");
    CompileError::Internal
}
