//! One execution, from a checked order to how the script ended: get the script, get native code, wait for a worker, run.

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::{Duration, Instant},
};

use antares_abi::{ArtifactKey, CodeTier, CompileOptions, Sha256Digest};
use antares_pool::{
    LayerStatus, Pool, PoolError, Recall, Sealed, Until, Verdict,
    job::{RunJob, RunReport, Tier},
};
use antares_serve::{Account, Config, Fault, Flights, Metrics, ProfilePush, RawRunner, chain};
use bytes::Bytes;
use prometheus::IntCounterVec;
use tokio::{sync::Semaphore, time::timeout_at};
use tracing::Instrument;

use crate::{
    charge::{charge_run, tell_spans},
    early::Early,
    hot::Hot,
    learn::Learnt,
    library::{Used, seal},
    metrics::RunnerMetrics,
    patience::Patience,
    profiles::Profiles,
    queue::{Full, Queue, Slot},
    ready::{Ready, ReadyKey},
    recheck::{Found, Recheck, RunAgain},
    source::{ArtifactSource, Fallback, SourceError},
    tenant::Tenant,
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
    /// For whom.
    pub(crate) tenant: Tenant,
    pub(crate) script: Script,
    /// Everything that the worker needs to know.
    pub(crate) job: RunJob,
    /// Wall time of the run.
    pub(crate) run_time: Duration,
    /// Whether the caller wants it run again, and compared.
    pub(crate) recheck: bool,
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ended<R = RunReport> {
    /// The worker told.
    Reported(R),
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
    pub(crate) native: Option<Origin>,
    pub(crate) fallback: Option<Fallback>,
    pub(crate) fetch: Duration,
    pub(crate) queue: Duration,
    /// As in the job; none where runs are not sampled.
    pub(crate) sample_salt: Option<u64>,
    pub(crate) recheck: Option<Found>,
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
    #[error("as many calls wait for a run worker as may")]
    QueueFull,
    #[error("the run worker was lost: {detail}")]
    WorkerLost { detail: String },
    #[error("the transaction cannot be used: {problem}")]
    Transaction { field: String, problem: String },
    #[error("{}", .0.message())]
    Quota(Fault),
    #[error(transparent)]
    Pool(PoolError),
    #[error("internal error")]
    Internal,
}

/// Runs scripts. Cheap to clone.
#[derive(Clone)]
pub struct Runner {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) pool: Pool,
    pub(crate) source: Arc<dyn ArtifactSource>,
    /// Of the keys that what is ready was verified with.
    pub(crate) generation: AtomicU64,
    pub(crate) refused: IntCounterVec,
    pub(crate) limits: RawRunner,
    slots: Arc<Queue>,
    /// Transactions that are read at once: each takes several times its bytes meanwhile.
    pub(crate) reading: Arc<Semaphore>,
    patience: Patience,
    pub(crate) hot: Hot,
    pub(crate) ready: Ready,
    scripts: Flights<Sha256Digest, Result<Arc<Sealed>, SourceError>>,
    pub(crate) learnt: Learnt,
    pub(crate) early: Early,
    /// By the full tier's key, and the key of what is at hand.
    pub(crate) libraries:
        Flights<(ArtifactKey, Option<ArtifactKey>), Result<Option<HintedNative>, SourceError>>,
    pub(crate) metrics: RunnerMetrics,
    pub(crate) recheck: Recheck,
    pub(crate) profiles: Profiles,
    pub(crate) push: Option<ProfilePush>,
}

/// Native code, ready to be loaded.
#[derive(Clone, Debug)]
pub(crate) struct Native {
    pub(crate) script: Sha256Digest,
    pub(crate) options: CompileOptions,
    pub(crate) key: ArtifactKey,
    pub(crate) tier: CodeTier,
    pub(crate) library: Arc<Sealed>,
    pub(crate) made_ms: Option<u64>,
}

/// Native code, and the digest of the hints that it was made with.
pub(crate) type HintedNative = (Native, Option<Sha256Digest>);

/// How native code was had, for the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) key: ArtifactKey,
    pub(crate) tier: CodeTier,
    /// Wall time of its compile, milliseconds, if it was compiled for this call.
    pub(crate) made_ms: Option<u64>,
}

impl Native {
    pub(crate) fn origin(&self) -> Origin {
        Origin { key: self.key, tier: self.tier, made_ms: self.made_ms }
    }
}

/// A script with all that there is to run it.
pub(crate) struct Prepared {
    pub(crate) script: Loaded,
    pub(crate) native: Option<Native>,
    pub(crate) fallback: Option<Fallback>,
    /// Waiting for all this, without the compile.
    pub(crate) fetch: Duration,
}

impl Prepared {
    /// Whether there may be better native code by now.
    pub(crate) fn has_baseline(&self) -> bool {
        self.native.as_ref().is_some_and(|native| native.tier == CodeTier::Baseline)
    }
}

/// A script, ready to be loaded.
pub(crate) struct Loaded {
    pub(crate) digest: Sha256Digest,
    pub(crate) elf: Arc<Sealed>,
    /// Its bytes, if they came with the request: the source may not have them.
    inline: Option<Bytes>,
}

impl Runner {
    /// A runner that gets things from `source` and works in `pool`.
    pub fn new(pool: Pool, source: Arc<dyn ArtifactSource>, config: &Config, metrics: &Metrics) -> Self {
        let limits = &config.runner;
        let workers = usize::try_from(limits.workers_max).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
        let keep = Duration::from_millis(limits.profile_keep_ms);
        let shared = Arc::new(Shared {
            slots: Arc::new(Queue::new(workers, usize::try_from(limits.queue_max).unwrap_or(usize::MAX))),
            reading: Arc::new(Semaphore::new(workers)),
            patience: Patience::default(),
            hot: Hot::new(),
            ready: Ready::new(
                limits.ready_bytes_max,
                usize::try_from(limits.ready_entries_max).unwrap_or(usize::MAX),
            ),
            profiles: Profiles::new(keep, config.profile_push.is_some()),
            push: config.profile_push.clone(),
            scripts: Flights::default(),
            learnt: Learnt::default(),
            early: Early::default(),
            libraries: Flights::default(),
            metrics: RunnerMetrics::new(metrics),
            recheck: Recheck::new(limits.recheck_one_in, metrics),
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
        shared.metrics.export_profiles(metrics, move || watched.profiles.stats());
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

    /// Takes trusted keys that have changed. Reads a file.
    pub(crate) fn look_at_keys(&self) {
        if let Some(Err(error)) = self.shared.source.trust().map(|trust| trust.look()) {
            tracing::error!(error = chain(&error), "changed keys are of no use; the old ones stay in force");
        }
    }

    /// Runs `order`. The caller waits until `deadline` at most. One that goes away earlier frees its worker at once.
    pub(crate) async fn execute(&self, order: Order, deadline: Instant) -> Result<Execution, ExecuteError> {
        let started = Instant::now();
        let steps = self.shared.clone().steps(order, deadline);
        let result = timeout_at(deadline.into(), steps).await.unwrap_or(Err(ExecuteError::CallDeadline));
        self.shared.metrics.note(&result, started.elapsed());
        result
    }
}

impl Shared {
    async fn steps(self: Arc<Self>, order: Order, deadline: Instant) -> Result<Execution, ExecuteError> {
        let Order { tenant, script, job, run_time, recheck } = order;
        tenant.account.may_run().map_err(ExecuteError::Quota)?;
        let sample_salt = (job.sample_cycles > 0).then_some(job.sample_salt);
        let Prepared { script, native, fallback, fetch } =
            self.prepare(&tenant.account, script, job.options, job.tier, deadline).await?;
        let (native, fallback) = self.unless_left_early(&tenant.account, job.tier, (native, fallback));
        let (slot, queue) = self.slot(&tenant).instrument(tracing::info_span!("queue")).await?;
        let origin = native.as_ref().map(Native::origin);
        let keys = origin.map(|origin| Used::of(&tenant.account, origin.key));
        self.metrics.note_native(origin.as_slice().iter().map(|origin| origin.tier), 1);
        let elf = script.elf;
        let again = || RunAgain { job: job.clone(), elf: elf.clone() };
        let second = keys.and_then(|_| self.recheck.draw(recheck, 1, run_time, again));
        let library = native.as_ref().map(|native| native.library.clone());
        let work = async {
            let cycles_max = job.cycles_max;
            let began = Instant::now();
            let lent = self.run_one(slot, run_time, deadline, job, elf, library).await?;
            charge_run(&tenant.account, &lent.answer, began.elapsed(), cycles_max);
            let ended = self.judge(lent, keys.as_slice())?;
            if let Ended::Reported(report) = &ended {
                tell_spans(report);
            }
            Ok::<_, ExecuteError>(ended)
        };
        let mut ended = work.instrument(tracing::info_span!("worker")).await?;
        self.keep_profile(&tenant.name, script.digest, &ended);
        self.learn_from(&tenant.account, native.as_ref(), &ended);
        if let Ended::Reported(report) = &ended {
            self.note_left(&tenant.account, origin, report);
        }
        let mut recheck = None;
        if let (Some(second), Ended::Reported(first)) = (second, &mut ended) {
            (*first, recheck) = self.recheck(&tenant, keys.as_slice(), second, first.clone()).await;
        }
        let (script, native) = (script.digest, origin);
        Ok(Execution { script, ended, native, fallback, fetch, queue, sample_salt, recheck })
    }

    /// Gets a script and, if the tier wants it, its native code.
    pub(crate) async fn prepare(
        &self,
        account: &Account,
        script: Script,
        options: CompileOptions,
        tier: Tier,
        deadline: Instant,
    ) -> Result<Prepared, ExecuteError> {
        let started = Instant::now();
        let script = self.script(account, script).instrument(tracing::info_span!("script")).await?;
        let (native, fallback) = match tier {
            Tier::Interpreter => (None, None),
            tier => self.native(account, &script, options, tier, deadline).await?,
        };
        let made_ms = native.as_ref().and_then(|native| native.made_ms);
        let fetch = started.elapsed().saturating_sub(Duration::from_millis(made_ms.unwrap_or(0)));
        Ok(Prepared { script, native, fallback, fetch })
    }

    pub(crate) async fn script(&self, account: &Account, script: Script) -> Result<Loaded, ExecuteError> {
        let digest = match script {
            Script::Inline(bytes) => {
                let elf = seal("antares-script", bytes.clone()).await?;
                return Ok(Loaded { digest: elf.digest(), elf: Arc::new(elf), inline: Some(bytes) });
            }
            Script::Stored(digest) => digest,
        };
        let apart = Sha256Digest(account.apart().apply(digest.0));
        let key = ReadyKey::Script(apart);
        if let Some(elf) = self.ready.get(key) {
            return Ok(Loaded { digest, elf, inline: None });
        }
        let source = self.source.of(account);
        let fetched = self.scripts.join(apart, || async move {
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
        account: &Account,
        script: &Loaded,
        options: CompileOptions,
        tier: Tier,
        deadline: Instant,
    ) -> Result<(Option<Native>, Option<Fallback>), ExecuteError> {
        let span = tracing::info_span!("artifact", cache = tracing::field::Empty);
        let fetched = self.library(account, script.digest, script.inline.as_ref(), options).instrument(span);
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

    /// Waits for the turn of `tenant`. Gives how long that was.
    pub(crate) async fn slot(&self, tenant: &Tenant) -> Result<(Slot, Duration), ExecuteError> {
        let started = Instant::now();
        let waiting = self.metrics.waiting();
        let slot = self.slots.acquire(tenant).await.map_err(|Full| ExecuteError::QueueFull)?;
        drop(waiting);
        Ok((slot, started.elapsed()))
    }

    /// Has `job` done as [`Shared::lend`] does; by a worker that waits for it, if there is one, and at once, if it is short.
    async fn run_one(
        &self,
        slot: Slot,
        run_time: Duration,
        deadline: Instant,
        job: RunJob,
        elf: Arc<Sealed>,
        library: Option<Arc<Sealed>>,
    ) -> Result<Lent<Verdict<RunReport>>, ExecuteError> {
        let recall = Recall::default();
        let own = Instant::now() + run_time;
        let until = recall.until(own.min(deadline));
        let pool = self.pool.of_tenant(slot.tenant());
        let begun = pool.begin_run(&job, &elf, library.as_deref(), until.clone());
        let Some(mut begun) = begun.map_err(failed)? else {
            let run = move |pool: &Pool, until| pool.run(&job, &elf, library.as_deref(), until);
            return self.lend(slot, run_time, deadline, run).await;
        };
        if self.patience.look(&mut begun) {
            // None if the worker had died before it heard of the run.
            if let Some(answer) = begun.wait().map_err(failed)? {
                return Ok(Lent { answer, is_call_s: deadline < own });
            }
            let run = move |pool: &Pool, until| pool.run(&job, &elf, library.as_deref(), until);
            return self.lend(slot, run_time, deadline, run).await;
        }
        let run = move |pool: &Pool, until| match begun.wait()? {
            Some(answer) => Ok(answer),
            None => pool.run(&job, &elf, library.as_deref(), until),
        };
        self.lend_until(slot, until, deadline < own, recall, run).await
    }

    /// Has `work` done by a worker for at most `run_time`. A caller that goes away takes it back.
    pub(crate) async fn lend<T: Send + 'static>(
        &self,
        slot: Slot,
        run_time: Duration,
        deadline: Instant,
        work: impl FnOnce(&Pool, Until) -> Result<T, PoolError> + Send + 'static,
    ) -> Result<Lent<T>, ExecuteError> {
        let recall = Recall::default();
        let own = Instant::now() + run_time;
        let until = recall.until(own.min(deadline));
        self.lend_until(slot, until, deadline < own, recall, work).await
    }

    async fn lend_until<T: Send + 'static>(
        &self,
        slot: Slot,
        until: Until,
        is_call_s: bool,
        _recall: Recall,
        work: impl FnOnce(&Pool, Until) -> Result<T, PoolError> + Send + 'static,
    ) -> Result<Lent<T>, ExecuteError> {
        let pool = self.pool.of_tenant(slot.tenant());
        let worked = tokio::task::spawn_blocking(move || {
            let answer = work(&pool, until);
            // Held until the worker is gone, also when nobody waits for it any more.
            drop(slot);
            answer
        });
        let answer = worked.await.map_err(|_| ExecuteError::Internal)?.map_err(failed)?;
        Ok(Lent { answer, is_call_s })
    }

    /// What the end of a worker that ran the native code `keys` means.
    pub(crate) fn judge<R>(&self, lent: Lent<Verdict<R>>, keys: &[Used]) -> Result<Ended<R>, ExecuteError> {
        match lent.answer {
            Verdict::Done(report) => Ok(Ended::Reported(report)),
            Verdict::DeadlineExceeded if lent.is_call_s => Err(ExecuteError::CallDeadline),
            Verdict::DeadlineExceeded => Ok(Ended::DeadlineExceeded),
            Verdict::SandboxViolation { detail } => {
                self.ready.bar(keys, &detail);
                Ok(Ended::SandboxViolation { detail })
            }
            Verdict::WorkerLost { detail } => {
                // If its native code is to blame, the next call shall not meet the same copy.
                keys.iter().for_each(|used| self.ready.remove(used.ready));
                Err(ExecuteError::WorkerLost { detail })
            }
        }
    }
}

/// Why a pool has no answer.
fn failed(error: PoolError) -> ExecuteError {
    match error {
        error if error.is_for_now() => {
            tracing::warn!(error = chain(&error), "no worker");
            ExecuteError::Busy
        }
        error => ExecuteError::Pool(error),
    }
}

/// What a worker gave.
pub(crate) struct Lent<T> {
    pub(crate) answer: T,
    /// Whether the call's deadline came before the end of the run's own time.
    pub(crate) is_call_s: bool,
}
