//! Native code of scripts, ready to load: the best that is available at once.
//!
//! A script's first runs may use the baseline's code. Each later run asks the source for better code. The
//! full tier's code serves later runs; runs in progress keep theirs.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use crate::race::{HeadStart, LongCompile};
use antares_abi::{ArtifactKey, CodeTier, CompileOptions, Sha256Digest};
use antares_pool::{ArtifactError, COMPILE_HEAD_START, LONG_COMPILE_BYTES, Sealed, verify_library};
use antares_serve::{Account, Namespace, chain};
use antares_trust::{Facts, Refusal, Trust};
use bytes::Bytes;
use prometheus::IntCounterVec;
use tokio::time::timeout;

use crate::{
    artifacts::{Artifacts, hints::Subject, native::Native, quarantine::Suspect, ready::Used, seal::seal},
    source::{Fetched, FetchedLibrary, SourceError, Wanted},
};

/// Longest wait of a run that has native code for the source's answer about better code.
const BETTER_WAIT_MAX: Duration = Duration::from_millis(100);

/// A head start over a compile of `code` bytes, if that takes long.
pub(crate) fn head_start(code: impl FnOnce() -> u64 + Send + 'static) -> (HeadStart, LongCompile) {
    HeadStart::new(COMPILE_HEAD_START, || code() >= LONG_COMPILE_BYTES)
}

/// One tenant's concurrent requests for the same native code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SharedFetch {
    namespace: Namespace,
    script: Sha256Digest,
    options: CompileOptions,
    /// The cached artifact.
    known: Option<ArtifactKey>,
}

impl Artifacts {
    /// Starts a deferred compile of `script` now.
    pub(crate) fn wake(&self, account: &Account, script: Sha256Digest, options: CompileOptions) {
        let namespace = account.namespace();
        self.libraries.wake(&SharedFetch { namespace, script, options, known: None });
    }

    /// The native code of `tier`, if it is cached.
    pub(crate) fn at_hand(
        &self,
        account: &Account,
        script: Sha256Digest,
        options: CompileOptions,
        tier: CodeTier,
    ) -> Result<Option<Native>, SourceError> {
        self.forget_distrusted();
        let hints = self.hints.find(Subject::of(account, script, options));
        let key = |tier| Sha256Digest::for_artifact(script, options, tier).with_hints(hints);
        let is_barred = |key: &ArtifactKey| self.ready.quarantine.has(Suspect::of(account, *key));
        if self.ready.quarantine.len() > 0
            && let Some(key) = CodeTier::ALL.map(key).into_iter().find(is_barred)
        {
            return Err(SourceError::Quarantined(key));
        }
        let key = key(tier);
        let library = self.ready.library(Used::of(account, key));
        Ok(library.map(|library| Native { script, options, key, tier, library, made_ms: None }))
    }

    /// The best native code available for `wanted`. The caller's run may get a head start.
    pub(crate) async fn library(
        &self,
        account: &Account,
        wanted: Wanted,
        start: Option<HeadStart>,
    ) -> Result<Native, SourceError> {
        let Wanted { script, options, .. } = wanted;
        if let Some(full) = self.at_hand(account, script, options, CodeTier::Full)? {
            return Ok(full);
        }
        let known = self.at_hand(account, script, options, CodeTier::Baseline)?;
        let wanted = Wanted { known: known.as_ref().map(|known| known.key), ..wanted };
        let fetched = self.fetch(account, wanted, start.filter(|_| known.is_none()));
        let Some(known) = known else {
            return fetched.await?.ok_or(SourceError::Internal);
        };
        match timeout(BETTER_WAIT_MAX, fetched).await {
            Ok(Ok(Some(better))) => Ok(better),
            Ok(Ok(None)) | Err(_) => Ok(known),
            Ok(Err(error)) => {
                tracing::debug!(%script, %error, "there is nothing better than the baseline");
                Ok(known)
            }
        }
    }

    /// Drops files that other keys verified, so they are verified again.
    fn forget_distrusted(&self) {
        let now = self.source.trust().map_or(0, |trust| trust.generation());
        if self.generation.swap(now, Ordering::AcqRel) != now {
            self.ready.clear();
        }
    }

    /// Fetches the source's artifact if it differs from the cached one, and caches it.
    async fn fetch(
        &self,
        account: &Account,
        wanted: Wanted,
        start: Option<HeadStart>,
    ) -> Result<Option<Native>, SourceError> {
        let Wanted { script, options, known, .. } = wanted;
        let key = SharedFetch { namespace: account.namespace(), script, options, known };
        let (source, refused) = (self.source.of(account), self.refused.clone());
        let flights = self.libraries.clone();
        let fetched = self.libraries.join(key, || async move {
            let mut fetched = None;
            if let Some(start) = start {
                let stored = source.artifact(Wanted { is_stored: true, ..wanted.clone() });
                fetched = start.stored_or_wait(stored, flights.until_woken(&key)).await?;
            }
            if fetched.is_none() {
                fetched = source.artifact(wanted).await?;
            }
            let Some(fetched) = fetched else { return Ok(None) };
            let key = Sha256Digest::for_artifact(script, options, fetched.tier).with_hints(fetched.hints);
            if fetched.key != key {
                return Err(SourceError::OtherVersion { expected: key, found: fetched.key });
            }
            let Fetched { tier, hints, made_ms, library, manifest, .. } = fetched;
            let library = take_library(library, manifest, key, script, source.trust(), &refused).await?;
            Ok(Some((Native { script, options, key, tier, library, made_ms }, hints)))
        });
        let fetched = fetched.await.unwrap_or(Err(SourceError::Internal))?;
        let is_barred = |native: &Native| self.ready.quarantine.has(Suspect::of(account, native.key));
        if let Some((native, _)) = fetched.as_ref().filter(|(native, _)| is_barred(native)) {
            return Err(SourceError::Quarantined(native.key));
        }
        if let Some((native, hints)) = &fetched {
            self.hints.record(Subject::of(account, native.script, native.options), *hints);
        }
        let native = fetched.map(|(native, _)| native);
        if let Some(native) = &native {
            self.ready.put_library(Used::of(account, native.key), &native.library);
        }
        Ok(native)
    }
}

/// Why a library is unusable.
#[derive(Debug, thiserror::Error)]
enum LibraryError {
    #[error("its manifest")]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Library(#[from] ArtifactError),
}

/// Seals a library and checks it: first that the signature covers the sealed bytes, then its contents.
async fn take_library(
    library: FetchedLibrary,
    manifest: Bytes,
    key: ArtifactKey,
    script: Sha256Digest,
    trust: Option<Arc<Trust>>,
    refused: &IntCounterVec,
) -> Result<Arc<Sealed>, SourceError> {
    let (library, digest, is_checked) = match library {
        FetchedLibrary::Checked(library) => {
            let digest = library.digest();
            (library, digest, true)
        }
        FetchedLibrary::Sent { bytes, sha256 } => {
            (Arc::new(seal("antares-library", bytes).await?), sha256, false)
        }
    };
    let facts = Facts { key, script, digest, length: library.len() };
    let checked = tokio::task::spawn_blocking(move || {
        if let Some(trust) = trust {
            trust.keyring().verify(&manifest, &facts)?;
        }
        if !is_checked {
            // Fails unless the signed digest matches the sealed bytes.
            verify_library(&library, facts.digest)?;
        }
        Ok::<_, LibraryError>(library)
    });
    match checked.await {
        Ok(Ok(library)) => Ok(library),
        Ok(Err(LibraryError::Refused(refusal))) => {
            refused.with_label_values(&[refusal.into_str()]).inc();
            tracing::error!(key = %facts.key, reason = refusal.into_str(), "native code is refused");
            Err(SourceError::Corrupt(refusal.to_string()))
        }
        Ok(Err(error)) => {
            tracing::error!(error = chain(&error), "a library was turned down");
            Err(SourceError::Corrupt(chain(&error)))
        }
        Err(_) => Err(SourceError::Internal),
    }
}
