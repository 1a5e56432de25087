//! Background writes to the shared tier: a bounded queue of tasks that retry for a limited time.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};

use crate::{
    Shared, Space, TierError, UploadStats,
    objects::{Inner, name},
};

/// Pause before the second attempt; doubles with each further attempt.
const PAUSE_MIN: Duration = Duration::from_millis(100);

/// How long a write is retried.
const RETRIED_MAX: Duration = Duration::from_secs(600);

/// Maximum concurrent writes.
const PUTS_MAX: usize = 4;

/// Maximum pause between two attempts.
const PAUSE_MAX: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
struct Waiting {
    ids: HashSet<(Space, [u8; 32])>,
    bytes: usize,
}

#[derive(Debug)]
pub(crate) struct Uploads {
    waiting: Mutex<Waiting>,
    turns: Semaphore,
    /// Notified when the queue becomes empty.
    empty: Notify,
}

/// A queued entry; dropping it frees its slot.
struct Entry {
    shared: Shared,
    space: Space,
    key: [u8; 32],
    bytes: Bytes,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let uploads = &self.shared.inner.uploads;
        let mut waiting = uploads.waiting.lock();
        waiting.ids.remove(&(self.space, self.key));
        waiting.bytes -= self.bytes.len();
        if waiting.ids.is_empty() {
            uploads.empty.notify_waiters();
        }
    }
}

impl Default for Uploads {
    fn default() -> Self {
        Self { waiting: Mutex::default(), turns: Semaphore::new(PUTS_MAX), empty: Notify::new() }
    }
}

impl Uploads {
    /// Entries in the queue, and their bytes.
    pub(crate) fn waiting(&self) -> (u64, u64) {
        let waiting = self.waiting.lock();
        (waiting.ids.len() as u64, waiting.bytes as u64)
    }
}

impl Entry {
    /// Makes one attempt; true if the entry existed already.
    async fn attempt(&self, is_fresh: bool) -> Result<bool, TierError> {
        let _turn = self.shared.inner.uploads.turns.acquire().await;
        if !is_fresh && self.shared.has(self.space, self.key).await? {
            return Ok(true);
        }
        self.shared.put(self.space, self.key, self.bytes.clone()).await.map(|()| false)
    }

    async fn go_up(self, is_fresh: bool) {
        let (started, inner) = (Instant::now(), &self.shared.inner);
        let count =
            |counter: fn(&mut UploadStats) -> &mut u64| *counter(&mut inner.stats.lock().uploads) += 1;
        let mut pause = PAUSE_MIN;
        loop {
            let error = match self.attempt(is_fresh).await {
                Ok(true) => return count(|uploads| &mut uploads.present),
                Ok(false) => return count(|uploads| &mut uploads.done),
                Err(error) => error,
            };
            let is_hopeless = matches!(error, TierError::NoRoom { .. });
            if is_hopeless || started.elapsed() + pause > RETRIED_MAX {
                count(|uploads| &mut uploads.expired);
                let name = name(self.space, self.key);
                return inner.failures.record_given_up(&name, &error.to_string());
            }
            // An open circuit makes all of them wait: only requests that were sent count.
            if error != TierError::LeftAlone {
                count(|uploads| &mut uploads.retried);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}

impl Shared {
    /// Queues an entry for writing, unless the queue is full. A fresh entry (`is_fresh`) replaces an existing
    /// object; otherwise an existing object stays. Call it within a Tokio runtime.
    pub fn offer(&self, space: Space, key: [u8; 32], bytes: Bytes, is_fresh: bool) {
        let Inner { config, uploads, stats, .. } = &*self.inner;
        let mut waiting = uploads.waiting.lock();
        if waiting.ids.contains(&(space, key)) {
            return;
        }
        if waiting.ids.len() >= config.queue_max
            || bytes.len() > config.queue_bytes_max.saturating_sub(waiting.bytes)
        {
            stats.lock().uploads.dropped += 1;
            return;
        }
        waiting.bytes += bytes.len();
        waiting.ids.insert((space, key));
        drop(waiting);
        let entry = Entry { shared: self.clone(), space, key, bytes };
        tokio::spawn(entry.go_up(is_fresh));
    }

    /// Waits at most `most` for the queue to become empty; returns whether it did.
    pub async fn flush(&self, most: Duration) -> bool {
        let uploads = &self.inner.uploads;
        let empty = async {
            loop {
                let reported = uploads.empty.notified();
                tokio::pin!(reported);
                reported.as_mut().enable();
                if uploads.waiting.lock().ids.is_empty() {
                    return;
                }
                reported.await;
            }
        };
        tokio::time::timeout(most, empty).await.is_ok()
    }
}
