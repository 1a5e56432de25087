//! Where entries are looked for: in memory, in the local store, in the shared tier. What is found further down fills those above.
//!
//! Without a shared tier there is the local store alone.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use antares_abi::{ArtifactKey, Sha256Digest};
use antares_cache::Space;
use antares_serve::{Config, Metrics, SharedTier, chain};
use antares_tier::{CacheTier as _, Memory, PlaceError, Shared as SharedStore, SharedConfig, StoreLocation};
use antares_trust::Refusal;
use bytes::Bytes;

use crate::{
    blocking::{Panicked, blocking},
    compiler::{CompileError, Compiler, Shared},
    signed::split,
    tier_metrics::{Level, TierMetrics},
};

/// How long the end of the process waits for what is still to be written to the shared tier.
const FLUSH_TIME_MAX: Duration = Duration::from_secs(5);

/// It is asked again so much later what others have learnt of a script.
const ASK_AGAIN: Duration = Duration::from_secs(60);

/// Scripts for which it is remembered when that was.
const ASKED_MAX: usize = 1 << 16;

/// Where an entry was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// In this process or on its disk: verified before it came there.
    Here,
    /// In the shared tier: nothing is known of it but that it is whole.
    Shared,
}

/// The tiers around the local store.
#[derive(Debug)]
pub(crate) struct Tiers(Option<Around>);

#[derive(Debug)]
struct Around {
    memory: Arc<Memory>,
    shared: SharedStore,
    trusts_writers: bool,
    memory_bytes_max: u64,
    metrics: TierMetrics,
    asked: Asked,
}

/// When it was asked what others have learnt of a script.
#[derive(Debug, Default)]
struct Asked(Mutex<HashMap<Sha256Digest, Instant>>);

impl Asked {
    fn is_due(&self, key: Sha256Digest) -> bool {
        let mut asked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if asked.get(&key).is_some_and(|last| last.elapsed() < ASK_AGAIN) {
            return false;
        }
        if asked.len() >= ASKED_MAX {
            asked.clear();
        }
        asked.insert(key, Instant::now());
        true
    }
}

/// Limits of the shared tier.
fn limits(config: &Config, tier: &SharedTier) -> SharedConfig {
    SharedConfig {
        get_time_max: tier.get_time_max,
        put_time_max: tier.put_time_max,
        upload_time_max: tier.upload_time_max,
        gets_max: tier.gets_max,
        get_bytes_max: tier.get_bytes_max,
        puts_max: tier.puts_max,
        queue_max: tier.queue_max,
        queue_bytes_max: tier.queue_bytes_max,
        entry_bytes_max: config.cache.entry_bytes_max,
    }
}

impl Tiers {
    /// Those of `config`. Asks nobody.
    pub(crate) fn open(config: &Config, metrics: &Metrics) -> Result<Self, PlaceError> {
        let Some(tier) = &config.shared else { return Ok(Self(None)) };
        let limits = limits(config, tier);
        let shared = SharedStore::open(StoreLocation::open(&tier.url)?, limits);
        if tier.trusts_writers {
            let url = &tier.url;
            tracing::warn!(
                url,
                "signing.keys is empty: native code is taken from whoever may write to the shared tier"
            );
        }
        let memory = Arc::new(Memory::new(tier.memory_bytes_max));
        let metrics = TierMetrics::new(metrics, shared.clone(), memory.clone());
        let (trusts_writers, memory_bytes_max) = (tier.trusts_writers, tier.memory_bytes_max);
        Ok(Self(Some(Around {
            memory,
            shared,
            trusts_writers,
            memory_bytes_max,
            metrics,
            asked: Asked::default(),
        })))
    }

    /// Whether the shared tier's writers are believed without a signature that is known here.
    pub(crate) fn trusts_writers(&self) -> bool {
        self.0.as_ref().is_some_and(|around| around.trusts_writers)
    }

    /// Has what was made now written to the shared tier some time.
    pub(crate) fn offer(&self, space: Space, key: [u8; 32], bytes: Bytes) {
        if let Some(around) = &self.0 {
            around.memory.keep(space, key, bytes.clone());
            around.shared.offer(space, key, bytes, true);
        }
    }

    /// The same for what may be there already.
    pub(crate) fn offer_if_unknown(&self, space: Space, key: [u8; 32], bytes: Bytes) {
        if let Some(around) = &self.0
            && !around.shared.knows(space, key)
        {
            around.shared.offer(space, key, bytes, false);
        }
    }

    pub(crate) fn forget(&self, space: Space, key: [u8; 32]) {
        if let Some(around) = &self.0 {
            around.memory.forget(space, key);
        }
    }

    pub(crate) fn forget_all(&self) {
        if let Some(around) = &self.0 {
            around.memory.clear();
        }
    }

    /// The shared tier, if there is one.
    pub(crate) fn shared(&self) -> Option<&SharedStore> {
        self.0.as_ref().map(|around| &around.shared)
    }
}

impl Around {
    /// What the shared tier has; that it cannot be asked is a miss, and counted.
    async fn below(&self, space: Space, key: Sha256Digest) -> Option<Bytes> {
        let started = Instant::now();
        match self.shared.get(space, key.0).await {
            Ok(found) => {
                self.metrics.note_time(Level::Shared, found.is_some(), started);
                found
            }
            Err(error) => {
                tracing::debug!(space = space.name(), %key, %error, "the shared tier gives no answer");
                None
            }
        }
    }
}

impl Shared {
    /// An entry of the local store.
    pub(crate) async fn here(&self, space: Space, key: Sha256Digest) -> Result<Option<Bytes>, CompileError> {
        let cache = self.cache.clone();
        match blocking(move || cache.get(space, key.0)).await {
            Ok(Ok(found)) => Ok(found.map(Bytes::from)),
            Ok(Err(error)) => {
                tracing::error!(error = chain(&error), "the cache cannot be read");
                Err(CompileError::Internal)
            }
            Err(Panicked) => Err(CompileError::Internal),
        }
    }

    /// An entry, from the nearest tier that has it. What comes from the shared one does not go up before it is verified.
    pub(crate) async fn look(
        &self,
        space: Space,
        key: Sha256Digest,
    ) -> Result<Option<(Bytes, Origin)>, CompileError> {
        let Some(around) = &self.tiers.0 else {
            return Ok(self.here(space, key).await?.map(|entry| (entry, Origin::Here)));
        };
        let started = Instant::now();
        let found = around.memory.look(space, key.0);
        around.metrics.note(Level::Memory, found.is_some(), started);
        if let Some(entry) = found {
            self.tiers.offer_if_unknown(space, key.0, entry.clone());
            return Ok(Some((entry, Origin::Here)));
        }
        let started = Instant::now();
        let found = self.here(space, key).await?;
        around.metrics.note(Level::Sled, found.is_some(), started);
        if let Some(entry) = found {
            around.memory.keep(space, key.0, entry.clone());
            // It was lost there, or could not be written when it was made.
            self.tiers.offer_if_unknown(space, key.0, entry.clone());
            return Ok(Some((entry, Origin::Here)));
        }
        Ok(around.below(space, key).await.map(|entry| (entry, Origin::Shared)))
    }

    /// Bytes that need no proof beside their key: those of a script.
    pub(crate) async fn script_bytes(&self, script: Sha256Digest) -> Result<Option<Bytes>, CompileError> {
        let Some((bytes, origin)) = self.look(Space::Script, script).await? else { return Ok(None) };
        if origin == Origin::Shared {
            self.fill(Space::Script, script, bytes.clone());
        }
        Ok(Some(bytes))
    }

    /// What another server has told of a script. Asked for once in a while for each: most have learnt nothing.
    pub(crate) async fn told_elsewhere(&self, key: Sha256Digest) -> Option<Bytes> {
        let around = self.tiers.0.as_ref()?;
        if !around.asked.is_due(key) {
            return None;
        }
        around.below(Space::Artifact, key).await
    }

    /// Puts what the shared tier had, verified, into those above it. Nobody waits for the disk.
    pub(crate) fn fill(&self, space: Space, key: Sha256Digest, bytes: Bytes) {
        let Some(around) = &self.tiers.0 else { return };
        if around.memory_bytes_max > 0 {
            around.memory.keep(space, key.0, bytes.clone());
        }
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
        let Some((entry, origin)) = self.look(Space::Artifact, kept).await? else { return Ok(None) };
        let Some((bytes, manifest)) = split(&entry) else { return Ok(None) };
        if origin == Origin::Here || self.tiers.trusts_writers() {
            return Ok(Some((bytes, manifest)));
        }
        // Those who ask may believe all that comes from here.
        let keyring = self.signing.trust.keyring();
        let verified = blocking(move || {
            let digest = Sha256Digest::of(&bytes);
            keyring.verify_of_any_script(&manifest, key, digest, bytes.len() as u64)?;
            Ok::<_, Refusal>((bytes, manifest))
        });
        match verified.await {
            Ok(Ok(found)) => Ok(Some(found)),
            Ok(Err(refusal)) => {
                self.signing.note(refusal);
                tracing::error!(%key, reason = refusal.name(), "an artifact of the shared tier is refused");
                Ok(None)
            }
            Err(Panicked) => Err(CompileError::Internal),
        }
    }
}

impl Compiler {
    /// Waits a while for what is still to be written to the shared tier. For the end of the process.
    pub async fn flush(&self) {
        let Some(shared) = self.shared.tiers.shared() else { return };
        if !shared.flush(FLUSH_TIME_MAX).await {
            let waiting = shared.stats().uploads.waiting;
            tracing::warn!(waiting, "entries did not reach the shared tier before the end");
        }
    }
}

#[cfg(test)]
mod tests {
    use antares_serve::{RawConfig, Role};

    use super::*;

    /// They stand in both crates, which do not know each other.
    #[test]
    fn defaults_of_the_configuration_are_those_of_the_tier() {
        let mut raw = RawConfig::default();
        raw.shared.url = "file:///folder".to_owned();
        let config = raw.check(Role::Compiler, &[]).unwrap();
        assert_eq!(limits(&config, config.shared.as_ref().unwrap()), SharedConfig::default());
    }
}
