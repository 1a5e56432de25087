//! Artifacts from the nearest tier, or else compiled, signed and stored.

use std::{sync::Arc, time::Duration};

use antares_abi::{ArtifactKey, CodeTier};
use antares_cache::{Put, Space};
use antares_config::millis;
use antares_pool::{Sealed, verify_library};
use antares_serve::{chain, script_problem};
use antares_trust::{Facts, Refusal};
use bytes::Bytes;
use tracing::Instrument;

use crate::{
    artifact::{Artifact, CompileError, internal},
    blocking::blocking,
    compiler::Shared,
    order::Order,
    signed::{join, split},
    tiers::Origin,
    work::{WorkError, Worked},
};

impl Shared {
    pub(crate) async fn find_or_make(&self, order: &Order) -> Result<Arc<Artifact>, CompileError> {
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
        let tier = order.tier.name();
        match &made {
            Ok(artifact) => {
                let compile_ms = artifact.made.map(|made| made.compile_ms);
                let (bytes, stored) = (artifact.library.len(), artifact.stored);
                tracing::info!(script = %order.script, key = %order.key, tier, compile_ms, bytes, stored, "compiled");
                let found = artifact.made.map(|made| (made.unproved_functions, made.refused_orders));
                let (functions, blocks) = found.unwrap_or_default();
                if functions > 0 {
                    tracing::error!(script = %order.script, key = %order.key, tier, functions, "the verifier refused the optimized form; compiled from the plain one");
                }
                if blocks > 0 {
                    tracing::error!(script = %order.script, key = %order.key, tier, blocks, "the scheduler's order was refused; these blocks keep LLVM's");
                }
            }
            Err(error) => {
                tracing::warn!(script = %order.script, key = %order.key, tier, %error, "not compiled");
                self.remember(order, error).await;
            }
        }
        made
    }

    /// The bytes of the script, after a quick check.
    pub(crate) async fn elf_of(&self, order: &Order) -> Result<Bytes, CompileError> {
        let elf = match &order.elf {
            Some(elf) => elf.clone(),
            None => {
                let found = self.script_bytes(order.script).await?;
                found.ok_or(CompileError::ScriptNotFound(order.script))?
            }
        };
        match script_problem(&elf) {
            Some(mistake) => {
                Err(CompileError::Refused { reason: "elf".to_owned(), detail: format!("it {mistake}") })
            }
            None => Ok(elf),
        }
    }

    /// The stored artifact, if there is one and it is a library of ours. Otherwise a miss.
    pub(crate) async fn find(&self, order: &Order) -> Result<Option<Artifact>, CompileError> {
        let (key, tier, hints) = (order.key, order.tier, order.hints.digest());
        let kept = order.storage_key();
        let found = match tier {
            // Compiling is faster than fetching.
            CodeTier::Baseline => self.here(Space::Artifact, kept).await?.map(|entry| (entry, Origin::Here)),
            CodeTier::Full => self.read(Space::Artifact, kept).await?,
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
        match checked.await? {
            Ok((facts, library, mut manifest)) => {
                let mut entry = entry;
                if is_believed {
                    // Artifacts signed by others are signed by us from here on.
                    manifest = self.signing.sign(&facts);
                    entry = join(&library, &manifest).map_err(|error| internal("read a library", &error))?;
                }
                if origin == Origin::Shared {
                    self.fill(Space::Artifact, kept, entry);
                }
                Ok(Some(Artifact {
                    key,
                    tier,
                    hints,
                    library,
                    manifest,
                    made: None,
                    charged: Duration::ZERO,
                    stored: true,
                }))
            }
            Err(WorkError::Refused(refusal)) => {
                self.drop_refused(kept, refusal).await;
                Ok(None)
            }
            Err(WorkError::Library(error)) => {
                tracing::error!(%key, error = chain(&error), "a stored artifact is not one of ours");
                Ok(None)
            }
            Err(error) if error.is_for_now() => Err(CompileError::Busy(millis(self.limits.queue_time_max))),
            Err(error) => Err(internal("check a stored artifact", &error)),
        }
    }

    /// Removes a refused artifact, to make space for ours.
    async fn drop_refused(&self, key: ArtifactKey, refusal: Refusal) {
        self.signing.record(refusal);
        tracing::error!(%key, reason = refusal.into_str(), "a stored artifact is refused");
        self.tiers.forget(Space::Artifact, key.0);
        let cache = self.cache.clone();
        // If it stays, the next call refuses it again.
        let _ = blocking(move || cache.remove(Space::Artifact, key.0)).await;
    }

    async fn make(&self, order: &Order, elf: Bytes) -> Result<Arc<Artifact>, CompileError> {
        let Worked { summary, library, charged } = self.work(order, elf).await?;
        self.signing.allows(&summary.sha256, &order.script)?;
        let cache = self.cache.clone();
        let (key, kept, script, digest) = (order.key, order.storage_key(), order.script, summary.sha256);
        let manifest = self.signing.sign(&Facts { key, script, digest, length: library.len() });
        let signed = manifest.clone();
        let library = Arc::new(library);
        let sealed = library.clone();
        let kept = blocking(move || {
            let entry = join(&sealed, &signed)?;
            let put = cache.put(Space::Artifact, kept.0, &entry);
            Ok::<_, std::io::Error>((entry, put))
        });
        let (entry, put) = kept.await?.map_err(|error| internal("read a library", &error))?;
        if order.tier == CodeTier::Full {
            self.tiers.offer(Space::Artifact, order.storage_key().0, entry);
        }
        // A failing store does not fail the compile: the artifact is returned all the same.
        let stored = matches!(put, Ok(Put::Stored | Put::AlreadyThere));
        let (tier, hints) = (order.tier, order.hints.digest());
        Ok(Arc::new(Artifact { key, tier, hints, library, manifest, made: Some(summary), charged, stored }))
    }
}
