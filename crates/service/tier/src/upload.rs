//! Background writes to the shared tier: a bounded queue of tasks that retry for a limited time.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};

use crate::{Shared, SharedConfig, Space, TierError, UploadStats, objects::Inner, stats::add};

/// Pause before the second attempt; doubles with each further attempt.
const PAUSE_MIN: Duration = Duration::from_millis(100);

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
    done: AtomicU64,
    present: AtomicU64,
    retried: AtomicU64,
    expired: AtomicU64,
    dropped: AtomicU64,
}

/// A queued entry; dropping it frees its slot.
struct Entry {
    inner: Arc<Inner>,
    space: Space,
    key: [u8; 32],
    bytes: Bytes,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let uploads = &self.inner.uploads;
        let mut waiting = uploads.waiting.lock();
        waiting.ids.remove(&(self.space, self.key));
        waiting.bytes -= self.bytes.len();
        if waiting.ids.is_empty() {
            uploads.empty.notify_waiters();
        }
    }
}

impl Uploads {
    pub(crate) fn new(config: &SharedConfig) -> Self {
        Self {
            waiting: Mutex::default(),
            turns: Semaphore::new(config.puts_max),
            empty: Notify::new(),
            done: AtomicU64::new(0),
            present: AtomicU64::new(0),
            retried: AtomicU64::new(0),
            expired: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        }
    }

    /// Takes a slot; false if the entry is queued already or the queue is full.
    fn enter(&self, config: &SharedConfig, space: Space, key: [u8; 32], bytes: usize) -> bool {
        let mut waiting = self.waiting.lock();
        if waiting.ids.contains(&(space, key)) {
            return false;
        }
        if waiting.ids.len() >= config.queue_max
            || bytes > config.queue_bytes_max.saturating_sub(waiting.bytes)
        {
            add(&self.dropped);
            return false;
        }
        waiting.bytes += bytes;
        waiting.ids.insert((space, key))
    }

    pub(crate) fn stats(&self) -> UploadStats {
        let (waiting, waiting_bytes) = {
            let waiting = self.waiting.lock();
            (waiting.ids.len() as u64, waiting.bytes as u64)
        };
        UploadStats {
            done: self.done.load(Relaxed),
            present: self.present.load(Relaxed),
            retried: self.retried.load(Relaxed),
            expired: self.expired.load(Relaxed),
            dropped: self.dropped.load(Relaxed),
            waiting,
            waiting_bytes,
        }
    }
}

impl Entry {
    /// Makes one attempt; true if the entry existed already.
    async fn attempt(&self, is_fresh: bool) -> Result<bool, TierError> {
        let _turn = self.inner.uploads.turns.acquire().await;
        if !is_fresh && self.inner.has(self.space, self.key).await? {
            return Ok(true);
        }
        self.inner.put(self.space, self.key, &self.bytes).await.map(|()| false)
    }

    async fn go_up(self, is_fresh: bool) {
        let (started, uploads) = (Instant::now(), &self.inner.uploads);
        let mut pause = PAUSE_MIN;
        loop {
            let error = match self.attempt(is_fresh).await {
                Ok(was_there) => return add(if was_there { &uploads.present } else { &uploads.done }),
                Err(error) => error,
            };
            let is_hopeless = matches!(error, TierError::NoRoom { .. });
            if is_hopeless || started.elapsed() + pause > self.inner.config.upload_time_max {
                add(&uploads.expired);
                let name = Inner::name(self.space, self.key);
                return self.inner.failures.record_given_up(&name, &error.to_string());
            }
            // An open circuit makes all of them wait: only requests that were sent count.
            if error != TierError::LeftAlone {
                add(&uploads.retried);
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
        let inner = &self.inner;
        if inner.uploads.enter(&inner.config, space, key, bytes.len()) {
            let entry = Entry { inner: inner.clone(), space, key, bytes };
            tokio::spawn(entry.go_up(is_fresh));
        }
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
