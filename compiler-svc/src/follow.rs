//! Native code at once: the baseline's if the full tier's is not available yet, and the full compile in the
//! background.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use antares_abi::{ArtifactKey, CodeTier, Hints};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tracing::Instrument;

use crate::{
    artifact::{Artifact, CompileError},
    compiler::Compiler,
    limits::FOLLOWERS_MAX,
    metrics::FollowerResult,
    order::{CompileOrder, Order},
};

/// Delay of a full compile: the first run, with the baseline's code, has the processor.
const HEAD_START: Duration = Duration::from_millis(200);

impl Compiler {
    /// The artifact of a script: of the full tier, stored or compiled; or, where the baseline's is enough, the
    /// best one that is available at once: the full tier's if stored, otherwise the baseline's, compiled if
    /// needed; the full compile then follows in the background.
    ///
    /// # Errors
    /// There is none; all waiting callers get the same error.
    pub async fn compile(&self, order: &CompileOrder) -> Result<Arc<Artifact>, CompileError> {
        self.may_request(order.script, order.elf.as_ref())?;
        let hints = self.hints(order.target()).await?;
        match self.best(order, &hints).await {
            Err(error) if !hints.is_empty() && error.may_be_of_hints() => {
                self.best(order, &Hints::default()).await
            }
            best => best,
        }
    }

    /// The stored artifact of the order's tier or a better one; none if it would need a compile.
    ///
    /// # Errors
    /// The script is not stored, its compile is known to fail, or reading fails.
    pub async fn find_stored(&self, order: &CompileOrder) -> Result<Option<Arc<Artifact>>, CompileError> {
        self.may_request(order.script, order.elf.as_ref())?;
        let hints = self.hints(order.target()).await?;
        let is_quick = order.least == CodeTier::Baseline && self.shared.limits.baseline;
        let mut last = order.of_tier(&self.account, CodeTier::Full, &hints);
        let mut found = self.shared.find(&last).await?;
        if is_quick && found.is_none() {
            last = order.of_tier(&self.account, CodeTier::Baseline, &hints);
            found = self.shared.find(&last).await?;
        }
        if let Some(artifact) = found {
            return Ok(Some(Arc::new(artifact)));
        }
        match self.shared.remembered(&last).await? {
            Some(error) if hints.is_empty() => Err(error),
            _ => self.shared.elf_of(&last).await.map(|_| None),
        }
    }

    async fn best(&self, order: &CompileOrder, hints: &Hints) -> Result<Arc<Artifact>, CompileError> {
        let full = order.of_tier(&self.account, CodeTier::Full, hints);
        if order.least == CodeTier::Full || !self.shared.limits.baseline {
            return self.join(full).await;
        }
        if let Some(artifact) = self.shared.find(&full).await? {
            return Ok(Arc::new(artifact));
        }
        let baseline = order.of_tier(&self.account, CodeTier::Baseline, hints);
        match self.join(baseline).await {
            Ok(artifact) => {
                self.follow(full);
                Ok(artifact)
            }
            // The full tier would fail the same way.
            Err(
                error @ (CompileError::ScriptNotFound(_)
                | CompileError::Refused { .. }
                | CompileError::Quota(_)),
            ) => Err(error),
            Err(error) => {
                tracing::warn!(script = %order.script, %error, "no baseline");
                self.join(full).await
            }
        }
    }

    /// Queues the compile of `full`.
    pub(crate) fn follow(&self, mut full: Order) {
        if let Err(result) = self.shared.followers.enter(full.storage_key(), FOLLOWERS_MAX) {
            return result.into_iter().for_each(|result| self.shared.metrics.record_follower(result));
        }
        if self.has_script(full.script) {
            // Queued orders hold no bytes.
            full.elf = None;
        }
        let compiler = self.clone();
        let follow = async move {
            let key = full.storage_key();
            tokio::time::sleep(HEAD_START).await;
            // The semaphore is never closed.
            let _turn = compiler.shared.followers.turns.acquire().await;
            // Another one may have ended since the caller's check.
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
            let result = if result.is_ok() { FollowerResult::Done } else { FollowerResult::Failed };
            compiler.shared.metrics.record_follower(result);
        };
        // Not part of the call that it follows.
        tokio::spawn(follow.instrument(tracing::Span::none()));
    }
}

/// Interval between checks whether a failed background compile may be retried.
const RETRY: Duration = Duration::from_secs(600);

/// Remembered failures.
const FAILURES_MAX: usize = 4096;

/// Full compiles that follow a baseline.
#[derive(Debug)]
pub(crate) struct Followers {
    state: Mutex<State>,
    /// Leaves one of several workers to callers that wait for a full compile.
    pub(crate) turns: Semaphore,
}

#[derive(Debug, Default)]
struct State {
    /// Queued and running.
    queued: HashSet<ArtifactKey>,
    failed: HashMap<ArtifactKey, Instant>,
}

impl State {
    fn has_failed(&self, key: ArtifactKey) -> bool {
        self.failed.get(&key).is_some_and(|failed| failed.elapsed() < RETRY)
    }
}

impl Followers {
    pub(crate) fn new(workers: usize) -> Self {
        Self { state: Mutex::default(), turns: Semaphore::new(workers.saturating_sub(1).max(1)) }
    }

    /// Whether a background compile failed recently.
    pub(crate) fn has_failed(&self, key: ArtifactKey) -> bool {
        self.state.lock().has_failed(key)
    }

    /// Takes a slot in the queue; none if it is already queued, failed recently, or the queue is full.
    pub(crate) fn enter(&self, key: ArtifactKey, queue_max: u64) -> Result<(), Option<FollowerResult>> {
        let mut state = self.state.lock();
        if state.has_failed(key) || state.queued.contains(&key) {
            return Err(None);
        }
        if state.queued.len() as u64 >= queue_max {
            return Err(Some(FollowerResult::Dropped));
        }
        state.queued.insert(key);
        Ok(())
    }

    pub(crate) fn leave(&self, key: ArtifactKey, has_failed: bool) {
        let mut state = self.state.lock();
        state.queued.remove(&key);
        if has_failed {
            if state.failed.len() >= FAILURES_MAX {
                state.failed.clear();
            }
            state.failed.insert(key, Instant::now());
        } else {
            state.failed.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use antares_abi::Sha256Digest;

    use super::*;

    fn key(number: u8) -> ArtifactKey {
        Sha256Digest([number; 32])
    }

    #[test]
    fn each_key_waits_once_and_no_more_than_there_is_room_for() {
        let followers = Followers::new(2);
        assert_eq!(followers.enter(key(1), 2), Ok(()));
        assert_eq!(followers.enter(key(1), 2), Err(None));
        assert_eq!(followers.enter(key(2), 2), Ok(()));
        assert_eq!(followers.enter(key(3), 2), Err(Some(FollowerResult::Dropped)));
        followers.leave(key(1), false);
        assert_eq!(followers.enter(key(3), 2), Ok(()));
    }

    #[test]
    fn what_failed_waits_before_it_is_tried_again() {
        let followers = Followers::new(1);
        assert_eq!(followers.enter(key(1), 2), Ok(()));
        followers.leave(key(1), true);
        assert_eq!(followers.enter(key(1), 2), Err(None));
        assert_eq!(followers.enter(key(2), 2), Ok(()));
    }
}
