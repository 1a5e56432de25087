//! Scripts and their native code, ready to load. Concurrent callers share one resolution.

pub(crate) mod bailouts;
mod feedback;
mod hints;
pub(crate) mod library;
pub(crate) mod native;
pub(crate) mod prepare;
mod quarantine;
pub(crate) mod ready;
mod recent;
pub(crate) mod seal;

use std::sync::{Arc, atomic::AtomicU64};

use antares_abi::Sha256Digest;
use antares_config::RunnerSection;
use antares_pool::{Sealed, Verdict};
use antares_serve::{Metrics, Namespace, SingleFlight, chain};
use prometheus::IntCounterVec;

use crate::{
    artifacts::{
        bailouts::Bailouts,
        hints::KnownHints,
        library::SharedFetch,
        native::HintedNative,
        ready::{Ready, Used},
    },
    ended::{Ended, ExecuteError},
    metrics::{RunnerMetrics, export_ready, refused_artifacts},
    scheduler::lease::{FalseStart, Leased},
    source::{ArtifactSource, SourceError},
};

/// Fetches scripts and their native code, and tracks unusable native code.
pub(crate) struct Artifacts {
    source: Arc<dyn ArtifactSource>,
    /// Generation of the keys that verified the cached files.
    generation: AtomicU64,
    refused: IntCounterVec,
    /// Maximum bytes of a program that is worth requesting.
    pub(crate) script_bytes_max: u64,
    ready: Ready,
    scripts: SingleFlight<(Namespace, Sha256Digest), Result<Arc<Sealed>, SourceError>>,
    libraries: SingleFlight<SharedFetch, Result<Option<HintedNative>, SourceError>>,
    hints: KnownHints,
    bailouts: Bailouts,
    metrics: Arc<RunnerMetrics>,
}

impl Artifacts {
    /// Artifacts from `source`, cached within `limits`.
    pub(crate) fn new(
        source: Arc<dyn ArtifactSource>,
        limits: &RunnerSection,
        metrics: &Metrics,
        counts: &Arc<RunnerMetrics>,
    ) -> Arc<Self> {
        let artifacts = Arc::new(Self {
            generation: AtomicU64::new(source.trust().map_or(0, |trust| trust.generation())),
            source,
            refused: refused_artifacts(metrics),
            script_bytes_max: limits.script_bytes_max,
            ready: Ready::new(limits.ready_bytes_max, limits.ready_entries_max()),
            scripts: SingleFlight::default(),
            libraries: SingleFlight::default(),
            hints: KnownHints::default(),
            bailouts: Bailouts::default(),
            metrics: counts.clone(),
        });
        let watched = artifacts.clone();
        export_ready(metrics, move || (watched.ready.stats(), watched.ready.quarantine.len()));
        artifacts
    }

    /// Reloads the trusted keys if they changed. Reads a file.
    pub(crate) fn poll_keys(&self) {
        if let Some(Err(error)) = self.source.trust().map(|trust| trust.poll()) {
            tracing::error!(error = chain(&error), "changed keys are invalid; the old ones stay in force");
        }
    }

    /// Quarantines native code for the reason in `detail`.
    pub(crate) fn bar(&self, used: &[Used], detail: &str) {
        self.ready.bar(used, detail);
    }

    /// Interprets the end of a worker that ran the native code `keys`.
    pub(crate) fn judge<R>(
        &self,
        leased: Leased<Verdict<R>>,
        keys: &[Used],
    ) -> Result<Ended<R>, ExecuteError> {
        if let Some(FalseStart { detail, .. }) = &leased.false_start {
            tracing::error!(detail, "a worker's report was false");
            self.bar(keys, detail);
        }
        match leased.answer {
            Verdict::Done(report) => Ok(Ended::Reported(report)),
            Verdict::DeadlineExceeded if leased.is_call_s => Err(ExecuteError::CallDeadline),
            Verdict::DeadlineExceeded => Ok(Ended::DeadlineExceeded),
            Verdict::SandboxViolation { detail } => {
                self.bar(keys, &detail);
                Ok(Ended::SandboxViolation { detail })
            }
            Verdict::FalseReport { detail } => Err(ExecuteError::FalseReport { detail }),
            Verdict::WorkerLost { detail } => {
                // If its native code is to blame, the next call must not get the same copy.
                keys.iter().for_each(|used| self.ready.remove_library(*used));
                Err(ExecuteError::WorkerLost { detail })
            }
        }
    }
}
