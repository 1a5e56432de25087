//! One execution, from a checked order to how the script ended: get the script, get native code, wait for a worker, run.

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use antares_abi::{ArtifactKey, CompileOptions, Sha256Digest};
use antares_pool::{
    LayerStatus, Pool, PoolError, Sealed, Verdict,
    job::{RunJob, RunReport, Tier},
    verify_library,
};
use antares_serve::{Flights, Metrics, RawRunner, chain, fact, past_span};
use bytes::Bytes;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout_at,
};
use tracing::{Instrument, Span};

use crate::{
    metrics::RunnerMetrics,
    ready::{Ready, ReadyKey},
    source::{ArtifactSource, Fallback, SourceError, Wanted},
};

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
    pub(crate) script: Script,
    /// Everything that the worker needs to know.
    pub(crate) job: RunJob,
    /// Wall time of the run.
    pub(crate) run_time: Duration,
}

/// How a script ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The worker told.
    Reported(RunReport),
    /// Its wall time was over.
    DeadlineExceeded,
    /// It broke a rule of the fence.
    SandboxViolation { detail: String },
}

/// An execution that came to an end.
#[derive(Clone, Debug)]
pub(crate) struct Execution {
    pub(crate) script: Sha256Digest,
    pub(crate) ended: Ended,
    /// Key of the native code and, if it was compiled for this call, for how many milliseconds.
    pub(crate) native: Option<(ArtifactKey, Option<u64>)>,
    pub(crate) fallback: Option<Fallback>,
    pub(crate) fetch: Duration,
    pub(crate) queue: Duration,
}

/// Why there is no verdict.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExecuteError {
    #[error("the deadline of the call passed")]
    CallDeadline,
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error("no run worker came free in time")]
    Busy,
    #[error("the run worker was lost: {detail}")]
    WorkerLost { detail: String },
    #[error(transparent)]
    Pool(PoolError),
    #[error("internal error")]
    Internal,
}

/// Runs scripts. Cheap to clone.
#[derive(Clone)]
pub struct Runner {
    shared: Arc<Shared>,
}

struct Shared {
    pool: Pool,
    source: Arc<dyn ArtifactSource>,
    limits: RawRunner,
    slots: Arc<Semaphore>,
    ready: Ready,
    scripts: Flights<Sha256Digest, Result<Arc<Sealed>, SourceError>>,
    libraries: Flights<ArtifactKey, Result<Native, SourceError>>,
    metrics: RunnerMetrics,
}

/// Native code, ready to be loaded.
#[derive(Clone, Debug)]
struct Native {
    key: ArtifactKey,
    library: Arc<Sealed>,
    made_ms: Option<u64>,
}

/// A script, ready to be loaded.
struct Loaded {
    digest: Sha256Digest,
    elf: Arc<Sealed>,
    /// Its bytes, if they came with the request: the source may not have them.
    inline: Option<Bytes>,
}

impl Runner {
    /// A runner that gets things from `source` and works in `pool`.
    pub fn new(pool: Pool, source: Arc<dyn ArtifactSource>, limits: &RawRunner, metrics: &Metrics) -> Self {
        let workers = usize::try_from(limits.workers_max).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
        let shared = Arc::new(Shared {
            slots: Arc::new(Semaphore::new(workers)),
            ready: Ready::new(limits.ready_bytes_max),
            scripts: Flights::default(),
            libraries: Flights::default(),
            metrics: RunnerMetrics::new(metrics),
            limits: limits.clone(),
            pool,
            source,
        });
        let watched = shared.clone();
        metrics.watch_workers("run", move || crate::metrics::worker_numbers(&watched.pool.stats()));
        let watched = shared.clone();
        shared.metrics.export_ready(metrics, move || watched.ready.stats());
        let layers = shared.pool.layers().iter().map(|status| (status.layer.name(), status.active));
        metrics.sandbox_layers("run", layers);
        Self { shared }
    }

    /// Limits as configured.
    #[must_use]
    pub fn limits(&self) -> &RawRunner {
        &self.shared.limits
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

    /// Runs `order`. The caller waits until `deadline` at most. One that goes away earlier frees its worker when the
    /// wall time of its run is over, at the latest: the wait for a worker's answer cannot be taken back.
    pub(crate) async fn execute(&self, order: Order, deadline: Instant) -> Result<Execution, ExecuteError> {
        let steps = self.shared.clone().steps(order, deadline);
        let result = timeout_at(deadline.into(), steps).await.unwrap_or(Err(ExecuteError::CallDeadline));
        self.shared.metrics.note(&result);
        result
    }
}

impl Shared {
    async fn steps(self: Arc<Self>, order: Order, deadline: Instant) -> Result<Execution, ExecuteError> {
        let started = Instant::now();
        let script = self.script(order.script).instrument(tracing::info_span!("script")).await?;
        let (native, fallback) = match order.job.tier {
            Tier::Interpreter => (None, None),
            tier => self.native(&script, order.job.options, tier, deadline).await?,
        };
        let made_ms = native.as_ref().and_then(|native| native.made_ms);
        let fetch = started.elapsed().saturating_sub(Duration::from_millis(made_ms.unwrap_or(0)));
        let (slot, queue) = self.slot().instrument(tracing::info_span!("queue")).await?;
        let native_key = native.as_ref().map(|native| (native.key, native.made_ms));
        let ended = self
            .run(slot, order.job, order.run_time, script.elf, native, deadline)
            .instrument(tracing::info_span!("worker"))
            .await?;
        Ok(Execution { script: script.digest, ended, native: native_key, fallback, fetch, queue })
    }

    async fn script(&self, script: Script) -> Result<Loaded, ExecuteError> {
        let digest = match script {
            Script::Inline(bytes) => {
                let elf = seal("antares-script", bytes.clone()).await?;
                return Ok(Loaded { digest: elf.digest(), elf: Arc::new(elf), inline: Some(bytes) });
            }
            Script::Stored(digest) => digest,
        };
        let key = ReadyKey::Script(digest);
        if let Some(elf) = self.ready.get(key) {
            return Ok(Loaded { digest, elf, inline: None });
        }
        let source = self.source.clone();
        let fetched = self.scripts.join(digest, || async move {
            let elf = seal("antares-script", source.script(digest).await?).await?;
            if elf.digest() == digest {
                Ok(Arc::new(elf))
            } else {
                Err(SourceError::Corrupt { detail: format!("a script with digest {}", elf.digest()) })
            }
        });
        let elf = fetched.await.unwrap_or(Err(SourceError::Internal))?;
        self.ready.put(key, &elf);
        Ok(Loaded { digest, elf, inline: None })
    }

    /// Native code for `script`; with [`Tier::Auto`], none and why where there is none to be had in time.
    async fn native(
        &self,
        script: &Loaded,
        options: CompileOptions,
        tier: Tier,
        deadline: Instant,
    ) -> Result<(Option<Native>, Option<Fallback>), ExecuteError> {
        let span = tracing::info_span!("artifact", cache = tracing::field::Empty);
        let fetched = self.library(script, options).instrument(span);
        if tier == Tier::Native {
            return Ok((Some(fetched.await?), None));
        }
        // Half of what is left is for the run: an interpreter's answer is worth more than a compile without a run.
        let left = deadline.saturating_duration_since(Instant::now());
        let fallback = match tokio::time::timeout(left / 2, fetched).await {
            Ok(Ok(native)) => return Ok((Some(native), None)),
            Ok(Err(error)) => {
                let fallback = error.fallback().ok_or_else(|| error.clone())?;
                tracing::info!(script = %script.digest, fallback = fallback.name(), error = chain(&error), "no native code");
                fallback
            }
            Err(_) => Fallback::Deadline,
        };
        self.metrics.note_fallback(fallback);
        Ok((None, Some(fallback)))
    }

    async fn library(&self, script: &Loaded, options: CompileOptions) -> Result<Native, SourceError> {
        let key = Sha256Digest::for_artifact(script.digest, options);
        if let Some(library) = self.ready.get(ReadyKey::Library(key)) {
            return Ok(Native { key, library, made_ms: None });
        }
        let source = self.source.clone();
        let wanted = Wanted { script: script.digest, options, elf: script.inline.clone() };
        let fetched = self.libraries.join(key, || async move {
            let fetched = source.artifact(wanted).await?;
            if fetched.key != key {
                return Err(SourceError::OtherVersion { expected: key, found: fetched.key });
            }
            let library = seal_library(fetched.bytes, fetched.sha256).await?;
            Ok(Native { key, library: Arc::new(library), made_ms: fetched.made_ms })
        });
        let native = fetched.await.unwrap_or(Err(SourceError::Internal))?;
        self.ready.put(ReadyKey::Library(key), &native.library);
        Ok(native)
    }

    async fn slot(&self) -> Result<(OwnedSemaphorePermit, Duration), ExecuteError> {
        let started = Instant::now();
        let waiting = self.metrics.waiting();
        // The semaphore is never closed.
        let slot = self.slots.clone().acquire_owned().await.map_err(|_| ExecuteError::Internal)?;
        drop(waiting);
        Ok((slot, started.elapsed()))
    }

    async fn run(
        &self,
        slot: OwnedSemaphorePermit,
        job: RunJob,
        run_time: Duration,
        elf: Arc<Sealed>,
        native: Option<Native>,
        deadline: Instant,
    ) -> Result<Ended, ExecuteError> {
        let pool = self.pool.clone();
        let own = Instant::now() + run_time;
        let key = native.as_ref().map(|native| native.key);
        let ran = tokio::task::spawn_blocking(move || {
            let library = native.as_ref().map(|native| &*native.library);
            let verdict = pool.run(&job, &elf, library, own.min(deadline));
            // Held until the worker is gone, also when nobody waits for it any more.
            drop(slot);
            verdict
        });
        match ran.await.map_err(|_| ExecuteError::Internal)? {
            Ok(Verdict::Done(report)) => {
                tell_spans(&report);
                Ok(Ended::Reported(report))
            }
            Ok(Verdict::DeadlineExceeded) if deadline < own => Err(ExecuteError::CallDeadline),
            Ok(Verdict::DeadlineExceeded) => Ok(Ended::DeadlineExceeded),
            Ok(Verdict::SandboxViolation { detail }) => Ok(Ended::SandboxViolation { detail }),
            Ok(Verdict::WorkerLost { detail }) => {
                // If its native code is to blame, the next call shall not meet the same copy.
                if let Some(key) = key {
                    self.ready.remove(ReadyKey::Library(key));
                }
                Err(ExecuteError::WorkerLost { detail })
            }
            Err(PoolError::Busy { .. } | PoolError::ZygoteLost) => Err(ExecuteError::Busy),
            Err(error) => Err(ExecuteError::Pool(error)),
        }
    }
}

/// The worker's own times as spans: it ended about now, ran before that, and loaded before that.
fn tell_spans(report: &RunReport) {
    let (load, run) = (Duration::from_micros(report.load_us), Duration::from_micros(report.run_us));
    let end = SystemTime::now();
    let facts = vec![
        fact("cycles", report.cycles),
        fact("native_cycles", report.native_cycles),
        fact("interpreted_cycles", report.interpreted_cycles),
    ];
    past_span("load", end - run - load, load, vec![fact("load_cycles", report.load_cycles)]);
    past_span("run", end - run, run, facts);
}

async fn seal(name: &'static str, bytes: Bytes) -> Result<Sealed, SourceError> {
    let span = Span::current();
    let sealed = tokio::task::spawn_blocking(move || span.in_scope(|| Sealed::new(name, &bytes)));
    match sealed.await {
        Ok(Ok(sealed)) => Ok(sealed),
        Ok(Err(error)) => {
            tracing::error!(error = chain(&error), "a memory file cannot be made");
            Err(SourceError::Internal)
        }
        // It panicked; the hook has told where.
        Err(_) => Err(SourceError::Internal),
    }
}

/// A library, sealed and then checked.
async fn seal_library(bytes: Bytes, sha256: Sha256Digest) -> Result<Sealed, SourceError> {
    let library = seal("antares-library", bytes).await?;
    let checked = tokio::task::spawn_blocking(move || verify_library(&library, sha256).map(|()| library));
    match checked.await {
        Ok(Ok(library)) => Ok(library),
        Ok(Err(error)) => {
            tracing::error!(error = chain(&error), "a library was turned down");
            Err(SourceError::Corrupt { detail: chain(&error) })
        }
        Err(_) => Err(SourceError::Internal),
    }
}
