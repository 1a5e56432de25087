//! Native code at once: the baseline's where the full tier's is not there yet, and the full compile behind
//! it.

use std::{sync::Arc, time::Duration};

use antares_abi::{CodeTier, CompileOptions, Hints, Sha256Digest};
use bytes::Bytes;
use tracing::Instrument;

use crate::{
    artifact::{Artifact, CompileError},
    compiler::Compiler,
    limits::FOLLOWERS_MAX,
    metrics::FollowerResult,
    order::Order,
};

/// A full compile waits for so long: the first run, which has the baseline's code, has the processor.
const HEAD_START: Duration = Duration::from_millis(200);

impl Compiler {
    /// The best artifact that there is at once: the full tier's if it is stored, else the baseline's,
    /// compiled if need be, and then the full compile follows while nobody waits. `elf` is as in
    /// [`Compiler::compile`].
    ///
    /// # Errors
    /// There is none, of either tier.
    pub async fn compile_soon(
        &self,
        script: Sha256Digest,
        options: CompileOptions,
        elf: Option<Bytes>,
    ) -> Result<Arc<Artifact>, CompileError> {
        self.may_request(script, elf.as_ref())?;
        let hints = self.hints(script, options).await?;
        match self.best(script, options, &hints, elf.clone()).await {
            Err(error) if !hints.is_empty() && error.may_be_of_hints() => {
                self.best(script, options, &Hints::default(), elf).await
            }
            best => best,
        }
    }

    /// The stored artifact of `least`, or of a better tier; none if a compile would have to make it. `elf` is
    /// as in [`Compiler::compile`].
    ///
    /// # Errors
    /// The script is not stored, its compile is known to fail, or it cannot be known.
    pub async fn find_stored(
        &self,
        (script, options): (Sha256Digest, CompileOptions),
        least: CodeTier,
        elf: Option<Bytes>,
    ) -> Result<Option<Arc<Artifact>>, CompileError> {
        self.may_request(script, elf.as_ref())?;
        let hints = self.hints(script, options).await?;
        let order = |tier| Order::new(&self.account, script, options, tier, elf.clone()).hinted(&hints);
        let least = if self.shared.limits.baseline { least } else { CodeTier::Full };
        if least == CodeTier::Baseline
            && let Some(artifact) = self.shared.find(&order(CodeTier::Full)).await?
        {
            return Ok(Some(Arc::new(artifact)));
        }
        let order = order(least);
        if let Some(artifact) = self.shared.find(&order).await? {
            return Ok(Some(Arc::new(artifact)));
        }
        match self.shared.remembered(&order).await? {
            Some(error) if hints.is_empty() => Err(error),
            _ => self.shared.elf_of(&order).await.map(|_| None),
        }
    }

    async fn best(
        &self,
        script: Sha256Digest,
        options: CompileOptions,
        hints: &Hints,
        elf: Option<Bytes>,
    ) -> Result<Arc<Artifact>, CompileError> {
        let full = Order::new(&self.account, script, options, CodeTier::Full, elf.clone()).hinted(hints);
        if !self.shared.limits.baseline {
            return self.join(full).await;
        }
        if let Some(artifact) = self.shared.find(&full).await? {
            return Ok(Arc::new(artifact));
        }
        let baseline = Order::new(&self.account, script, options, CodeTier::Baseline, elf).hinted(hints);
        match self.join(baseline).await {
            Ok(artifact) => {
                self.follow(full);
                Ok(artifact)
            }
            // The full tier would say the same.
            Err(
                error @ (CompileError::ScriptNotFound(_)
                | CompileError::Refused { .. }
                | CompileError::Quota(_)),
            ) => Err(error),
            Err(error) => {
                tracing::warn!(%script, %error, "no baseline");
                self.join(full).await
            }
        }
    }

    /// Has `full` compiled some time.
    pub(crate) fn follow(&self, mut full: Order) {
        match self.shared.followers.enter(full.storage_key(), FOLLOWERS_MAX) {
            Ok(()) => {}
            Err(result) => {
                result.into_iter().for_each(|result| self.shared.metrics.record_follower(result));
                return;
            }
        }
        if self.has_script(full.script) {
            // What waits holds no bytes.
            full.elf = None;
        }
        let compiler = self.clone();
        let follow = async move {
            let key = full.storage_key();
            tokio::time::sleep(HEAD_START).await;
            // The semaphore is never closed.
            let _turn = compiler.shared.followers.turns.acquire().await;
            // Another one may have ended since the caller looked.
            if let Ok(Some(_)) = compiler.shared.find(&full).await {
                return compiler.shared.followers.leave(key, false);
            }
            if let Ok(Some(_)) = compiler.shared.withheld(&full).await {
                return compiler.shared.followers.leave(key, true);
            }
            let plain = full.clone().hinted(&Hints::default());
            let mut result = compiler.join(full).await;
            let is_busy = matches!(result, Err(CompileError::Busy { .. } | CompileError::Quota(_)));
            compiler.shared.followers.leave(key, result.is_err() && !is_busy);
            if plain.storage_key() != key && result.as_ref().is_err_and(CompileError::may_be_of_hints) {
                result = compiler.join(plain).await;
            }
            compiler.shared.metrics.record_follower(match result {
                Ok(_) => FollowerResult::Done,
                Err(_) => FollowerResult::Failed,
            });
        };
        // Not a part of the call that it follows.
        tokio::spawn(follow.instrument(tracing::Span::none()));
    }
}
