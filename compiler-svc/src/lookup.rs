//! Finds entries in the tiers, nearest first, and fills the tiers above.

use std::time::{Duration, Instant};

use antares_abi::{ArtifactKey, Sha256Digest};
use antares_cache::Space;
use antares_serve::chain;
use antares_trust::Refusal;
use bytes::Bytes;

use crate::{
    artifact::CompileError,
    blocking::blocking,
    compiler::{Compiler, Shared},
    signed::split,
    tiers::{Level, Origin},
};

/// How long the end of the process waits for queued writes to the shared tier.
const FLUSH_TIME_MAX: Duration = Duration::from_secs(5);

impl Shared {
    /// An entry of the local store.
    pub(crate) async fn here(&self, space: Space, key: Sha256Digest) -> Result<Option<Bytes>, CompileError> {
        let cache = self.cache.clone();
        Ok(blocking(move || cache.get(space, key.0)).await?.map(Bytes::from))
    }

    /// An entry from the nearest tier that has it. Entries of the shared tier move up only after
    /// verification.
    pub(crate) async fn read(
        &self,
        space: Space,
        key: Sha256Digest,
    ) -> Result<Option<(Bytes, Origin)>, CompileError> {
        let Some(around) = &self.tiers.0 else {
            return Ok(self.here(space, key).await?.map(|entry| (entry, Origin::Here)));
        };
        let started = Instant::now();
        let found = around.memory.get(&(space, key.0));
        around.metrics.record(Level::Memory, found.is_some(), started);
        if let Some(entry) = found {
            self.tiers.offer_if_unknown(space, key.0, entry.clone());
            return Ok(Some((entry, Origin::Here)));
        }
        let started = Instant::now();
        let found = self.here(space, key).await?;
        around.metrics.record(Level::Sled, found.is_some(), started);
        if let Some(entry) = found {
            around.memory.insert((space, key.0), entry.clone());
            // It was lost there, or could not be written when it was made.
            self.tiers.offer_if_unknown(space, key.0, entry.clone());
            return Ok(Some((entry, Origin::Here)));
        }
        Ok(around.below(space, key).await.map(|entry| (entry, Origin::Shared)))
    }

    /// A script's bytes, which need no proof beyond their key.
    pub(crate) async fn script_bytes(&self, script: Sha256Digest) -> Result<Option<Bytes>, CompileError> {
        let Some((bytes, origin)) = self.read(Space::Script, script).await? else { return Ok(None) };
        if origin == Origin::Shared {
            self.fill(Space::Script, script, bytes.clone());
        }
        Ok(Some(bytes))
    }

    /// Another server's hints of a script. Queried at intervals for each script: most have none.
    pub(crate) async fn hints_of_others(&self, key: Sha256Digest) -> Option<Bytes> {
        let around = self.tiers.0.as_ref()?;
        if !around.asked.is_due(key) {
            return None;
        }
        around.below(Space::Artifact, key).await
    }

    /// Puts a verified entry of the shared tier into the tiers above, without waiting for the disk.
    pub(crate) fn fill(&self, space: Space, key: Sha256Digest, bytes: Bytes) {
        let Some(around) = &self.tiers.0 else { return };
        around.memory.insert((space, key.0), bytes.clone());
        let cache = self.cache.clone();
        tokio::task::spawn_blocking(move || {
            if let Err(error) = cache.put(space, key.0, &bytes) {
                tracing::warn!(space = space.name(), %key, error = chain(&error), "not stored here");
            }
        });
    }

    /// The bytes of an artifact and its manifest.
    pub(crate) async fn stored(
        &self,
        kept: Sha256Digest,
        key: ArtifactKey,
    ) -> Result<Option<(Bytes, Bytes)>, CompileError> {
        let Some((entry, origin)) = self.read(Space::Artifact, kept).await? else { return Ok(None) };
        let Some((bytes, manifest)) = split(&entry) else { return Ok(None) };
        if origin == Origin::Here || self.tiers.trusts_writers() {
            return Ok(Some((bytes, manifest)));
        }
        // Callers may trust everything from here.
        let keyring = self.signing.trust.keyring();
        let verified = blocking(move || {
            let digest = Sha256Digest::of(&bytes);
            keyring.verify_of_any_script(&manifest, key, digest, bytes.len() as u64)?;
            Ok::<_, Refusal>((bytes, manifest))
        });
        match verified.await? {
            Ok(found) => Ok(Some(found)),
            Err(refusal) => {
                self.signing.record(refusal);
                tracing::error!(%key, reason = refusal.into_str(), "an artifact of the shared tier is refused");
                Ok(None)
            }
        }
    }
}

impl Compiler {
    /// Waits a bounded time for queued writes to the shared tier. For the end of the process.
    pub async fn flush(&self) {
        let Some(shared) = self.shared.tiers.shared() else { return };
        if !shared.flush(FLUSH_TIME_MAX).await {
            let waiting = shared.stats().uploads.waiting;
            tracing::warn!(waiting, "entries did not reach the shared tier before the end");
        }
    }
}
