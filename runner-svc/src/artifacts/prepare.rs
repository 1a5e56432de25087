//! A script and its native code, prepared for a run.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::race::HeadStart;
use antares_abi::{CompileOptions, Sha256Digest};
use antares_pool::{Sealed, job::Tier};
use antares_serve::{Account, chain};
use bytes::Bytes;
use tracing::Instrument;

use crate::{
    artifacts::{Artifacts, native::Native, seal::seal},
    ended::ExecuteError,
    execute::order::Script,
    source::{Fallback, SourceError, Wanted},
};

/// Native code, or the reason for its absence.
pub(crate) type NativeOrNot = (Option<Native>, Option<Fallback>);

/// A script with everything its run needs.
pub(crate) struct Prepared {
    pub(crate) script: Loaded,
    pub(crate) native: Option<Native>,
    pub(crate) fallback: Option<Fallback>,
    /// Time to fetch all this, without the compile.
    pub(crate) fetch: Duration,
}

impl Prepared {
    /// A script with the native code `found` since `started`.
    pub(crate) fn of(script: Loaded, (native, fallback): NativeOrNot, started: Instant) -> Self {
        let made_ms = native.as_ref().and_then(|native| native.made_ms);
        let fetch = started.elapsed().saturating_sub(Duration::from_millis(made_ms.unwrap_or(0)));
        Self { script, native, fallback, fetch }
    }
}

/// A script, ready to load.
pub(crate) struct Loaded {
    pub(crate) digest: Sha256Digest,
    pub(crate) elf: Arc<Sealed>,
    /// Its bytes, if the request carried them: the source may not have them.
    pub(crate) inline: Option<Bytes>,
}

impl Artifacts {
    /// Fetches a script and, if the tier needs it, its native code.
    pub(crate) async fn prepare(
        &self,
        account: &Account,
        script: Script,
        options: CompileOptions,
        tier: Tier,
        deadline: Instant,
    ) -> Result<Prepared, ExecuteError> {
        let started = Instant::now();
        let script = self.script(account, script).instrument(tracing::debug_span!("script")).await?;
        let found = match tier {
            Tier::Interpreter => (None, None),
            tier => self.native(account, &script, None, options, tier, deadline).await?,
        };
        Ok(Prepared::of(script, found, started))
    }

    pub(crate) async fn script(&self, account: &Account, script: Script) -> Result<Loaded, ExecuteError> {
        let digest = match script {
            Script::Inline(bytes) => {
                let elf = seal("antares-script", bytes.clone()).await?;
                return Ok(Loaded { digest: elf.digest(), elf: Arc::new(elf), inline: Some(bytes) });
            }
            Script::Stored(digest) => digest,
        };
        if let Some(elf) = self.ready.script(account, digest) {
            return Ok(Loaded { digest, elf, inline: None });
        }
        let source = self.source.of(account);
        let fetched = self.scripts.join((account.namespace(), digest), || async move {
            let elf = seal("antares-script", source.script(digest).await?).await?;
            if elf.digest() == digest {
                Ok(Arc::new(elf))
            } else {
                Err(SourceError::Corrupt(format!("a script with digest {}", elf.digest())))
            }
        });
        let elf = fetched.await.unwrap_or(Err(SourceError::Internal))?;
        self.ready.put_script(account, digest, &elf);
        Ok(Loaded { digest, elf, inline: None })
    }

    /// Native code for `script`. With [`Tier::Auto`], none and the reason if there is none in time.
    pub(crate) async fn native(
        &self,
        account: &Account,
        script: &Loaded,
        start: Option<HeadStart>,
        options: CompileOptions,
        tier: Tier,
        deadline: Instant,
    ) -> Result<NativeOrNot, ExecuteError> {
        let span = tracing::debug_span!("artifact", cache = tracing::field::Empty);
        let wanted = Wanted::best(script.digest, options, script.inline.clone());
        let fetched = self.library(account, wanted, start).instrument(span);
        if tier == Tier::Native {
            return Ok((Some(fetched.await?), None));
        }
        // Half of the remaining time is for the run: an interpreted answer beats a compile without a run.
        let left = deadline.saturating_duration_since(Instant::now());
        let fallback = match tokio::time::timeout(left / 2, fetched).await {
            Ok(Ok(native)) => return Ok((Some(native), None)),
            Ok(Err(error)) => {
                let fallback = error.fallback().ok_or_else(|| error.clone())?;
                tracing::info!(script = %script.digest, fallback = fallback.into_str(), error = chain(&error), "no native code");
                fallback
            }
            Err(_) => Fallback::Deadline,
        };
        self.metrics.record_fallback(fallback);
        Ok((None, Some(fallback)))
    }
}
