//! The queue of full compiles behind baselines.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use antares_abi::ArtifactKey;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::metrics::FollowerResult;

/// Whether a full compile that failed behind its baseline may be tried again is not asked for so long.
const RETRY: Duration = Duration::from_secs(600);

/// Failures that are remembered.
const FAILURES_MAX: usize = 4096;

/// Full compiles that follow a baseline.
#[derive(Debug)]
pub(crate) struct Followers {
    state: Mutex<State>,
    /// One worker is left to those who wait for a full compile, where there is more than one.
    pub(crate) turns: Semaphore,
}

#[derive(Debug, Default)]
struct State {
    /// Waiting and in progress.
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

    /// A turn among those compiles that nobody waits for.
    pub(crate) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        self.turns.acquire().await.ok()
    }

    /// Whether a compile failed lately that nobody waited for.
    pub(crate) fn has_failed(&self, key: ArtifactKey) -> bool {
        self.state.lock().has_failed(key)
    }

    /// Takes a place in the queue; none if it is there already, failed lately, or there is no room.
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
