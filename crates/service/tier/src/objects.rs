//! The shared tier: objects under content keys, read with a deadline and written through a queue.
//!
//! A read is one GET, without an earlier request. The tier remembers which entries exist, but not which are
//! missing.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use antares_abi::LIBRARY_BYTES_MAX;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream::BoxStream};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::{
    ListedObject, SharedStats, Space, StoreLocation, TierError, Unsound,
    breaker::{Admitted, Breaker, BreakerState},
    failure::{Failure, FailureKind, Failures},
    object::{HEAD_BYTES, digest_of, unwrap, wrap},
    remote::Found,
    upload::Uploads,
};

/// Maximum number of entries remembered as existing.
const KNOWN_MAX: usize = 1 << 17;

/// Unit of the memory budget of reads, in bytes.
const UNIT_BYTES: u64 = 1 << 10;

/// Maximum concurrent reads.
const GETS_MAX: usize = 64;

/// Limits of the shared tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedConfig {
    /// Deadline of a read.
    pub get_time_max: Duration,
    /// Deadline of one attempt of a write.
    pub put_time_max: Duration,
    /// Memory budget of all concurrent reads, in bytes; a longer entry takes all of it.
    pub get_bytes_max: usize,
    /// Maximum queued writes.
    pub queue_max: usize,
    /// Maximum bytes of queued writes.
    pub queue_bytes_max: usize,
    /// Maximum length of an entry in bytes.
    pub entry_bytes_max: u64,
}

impl Default for SharedConfig {
    fn default() -> Self {
        Self {
            get_time_max: Duration::from_secs(1),
            put_time_max: Duration::from_secs(30),
            get_bytes_max: 256 << 20,
            queue_max: 4_096,
            queue_bytes_max: 256 << 20,
            entry_bytes_max: LIBRARY_BYTES_MAX,
        }
    }
}

/// The shared tier. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Shared {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    place: StoreLocation,
    pub(crate) config: SharedConfig,
    breaker: Breaker,
    gets: Semaphore,
    /// Permits of [`UNIT_BYTES`] each.
    room: Semaphore,
    room_units: u32,
    pub(crate) stats: Mutex<SharedStats>,
    pub(crate) failures: Failures,
    pub(crate) uploads: Uploads,
    known: Mutex<HashSet<(Space, [u8; 32])>>,
}

/// Reports a cancelled request to the breaker.
struct Going<'a> {
    breaker: &'a Breaker,
    admitted: Admitted,
    is_reported: bool,
}

impl Drop for Going<'_> {
    fn drop(&mut self) {
        if !self.is_reported {
            self.breaker.forget(self.admitted);
        }
    }
}

/// Name of an entry in the log.
pub(crate) fn name(space: Space, key: [u8; 32]) -> String {
    format!("{}/{}", space.name(), hex::encode(key))
}

impl Inner {
    fn remember(&self, space: Space, key: [u8; 32]) {
        let mut known = self.known.lock();
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert((space, key));
    }

    /// Sends one request to the store, within `most`, if the breaker admits it. `waits` is set while the
    /// request waits for the memory budget instead of the store.
    async fn request_unless<T>(
        &self,
        operation: &'static str,
        most: Duration,
        waits: &AtomicBool,
        request: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, TierError> {
        let admitted = self.breaker.admit(Instant::now()).ok_or(TierError::LeftAlone)?;
        let mut going = Going { breaker: &self.breaker, admitted, is_reported: false };
        let asked = tokio::time::timeout(most, request).await;
        if asked.is_err() && waits.load(Relaxed) {
            // A timeout in our own queue says nothing about the store.
            return Err(TierError::NoMemory(self.config.get_bytes_max));
        }
        going.is_reported = true;
        let deadline_ms = u64::try_from(most.as_millis()).unwrap_or(u64::MAX);
        let (failure, is_late) = match asked {
            Ok(Ok(answer)) => {
                self.breaker.record(admitted, true, Instant::now());
                self.failures.record_success(self.place.url());
                return Ok(answer);
            }
            Ok(Err(failure)) => (failure, false),
            Err(_) => (Failure::new(FailureKind::Late, &format!("it took more than {deadline_ms} ms")), true),
        };
        self.breaker.record(admitted, false, Instant::now());
        self.stats.lock().failures[failure.kind as usize] += 1;
        self.failures.record(self.place.url(), operation, &failure);
        Err(match is_late {
            true => TierError::Deadline(deadline_ms),
            false => TierError::Failed(failure),
        })
    }

    async fn request<T>(
        &self,
        operation: &'static str,
        most: Duration,
        request: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, TierError> {
        self.request_unless(operation, most, &AtomicBool::new(false), request).await
    }

    /// Reads the entry in an object. Reserves memory before it reads, and checks the header as soon as it is
    /// complete.
    async fn collect(
        &self,
        (space, key): (Space, [u8; 32]),
        length: u64,
        mut chunks: BoxStream<'static, Result<Bytes, Failure>>,
        waits: &AtomicBool,
    ) -> Result<Result<Bytes, Unsound>, Failure> {
        let most = self.config.entry_bytes_max.saturating_add(HEAD_BYTES as u64);
        let Some(length) = usize::try_from(length).ok().filter(|_| length <= most) else {
            return Ok(Err(Unsound::TooLong));
        };
        let units = u32::try_from((length as u64).div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX);
        waits.store(true, Relaxed);
        let _room = self.room.acquire_many(units.min(self.room_units)).await;
        waits.store(false, Relaxed);
        let mut object = Vec::with_capacity(length);
        let mut is_known = false;
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk?;
            if chunk.len() > length - object.len() {
                return Ok(Err(Unsound::Malformed));
            }
            object.extend_from_slice(&chunk);
            if object.first() == Some(&b'<') {
                return Err(Failure::new(FailureKind::NoStore, "a page answers for the store"));
            }
            if !is_known && object.len() >= HEAD_BYTES {
                if let Err(unsound) = digest_of(space, key, &object) {
                    return Ok(Err(unsound));
                }
                is_known = true;
            }
        }
        Ok(unwrap(space, key, &object.into()))
    }

    async fn read(&self, space: Space, key: [u8; 32]) -> Result<Option<Result<Bytes, Unsound>>, TierError> {
        let _turn = self.gets.try_acquire().map_err(|_| TierError::Busy(GETS_MAX))?;
        let waits = AtomicBool::new(false);
        let request = async {
            match self.place.get(space, key).await? {
                None => Ok(None),
                Some(Found { length, chunks }) => {
                    self.collect((space, key), length, chunks, &waits).await.map(Some)
                }
            }
        };
        self.request_unless("read", self.config.get_time_max, &waits, request).await
    }
}

impl Shared {
    /// Opens the tier at `place`. Call it within a Tokio runtime: its tasks write offered entries.
    pub fn open(place: StoreLocation, config: SharedConfig) -> Self {
        let units =
            (config.get_bytes_max as u64).div_ceil(UNIT_BYTES).clamp(1, Semaphore::MAX_PERMITS as u64);
        let room_units = u32::try_from(units).unwrap_or(u32::MAX);
        let inner = Inner {
            place,
            config,
            room: Semaphore::new(room_units as usize),
            room_units,
            failures: Failures::default(),
            breaker: Breaker::default(),
            gets: Semaphore::new(GETS_MAX),
            stats: Mutex::default(),
            uploads: Uploads::default(),
            known: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// URL of the store.
    pub fn url(&self) -> &str {
        self.inner.place.url()
    }

    /// Whether the entry existed when it was last read or written.
    pub fn knows(&self, space: Space, key: [u8; 32]) -> bool {
        self.inner.known.lock().contains(&(space, key))
    }

    /// Statistics since the start.
    pub fn stats(&self) -> SharedStats {
        let (waiting, waiting_bytes) = self.inner.uploads.waiting();
        let mut stats = *self.inner.stats.lock();
        (stats.uploads.waiting, stats.uploads.waiting_bytes) = (waiting, waiting_bytes);
        SharedStats { breaker: self.breaker(), ..stats }
    }

    /// State of the circuit breaker.
    pub fn breaker(&self) -> BreakerState {
        self.inner.breaker.state()
    }

    /// Calls `each` for all objects of a space, in the store's order, until it returns false. For operators:
    /// may take long.
    ///
    /// # Errors
    /// The store fails.
    pub async fn list(
        &self,
        space: Space,
        mut each: impl FnMut(ListedObject) -> bool + Send,
    ) -> Result<(), TierError> {
        self.inner.place.list(space, &mut each).await.map_err(TierError::Failed)
    }

    /// The bytes of an entry; `None` if it does not exist or is damaged.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn get(&self, space: Space, key: [u8; 32]) -> Result<Option<Bytes>, TierError> {
        let inner = &self.inner;
        let read = inner.read(space, key).await;
        let mut stats = inner.stats.lock();
        match read {
            Ok(Some(Ok(bytes))) => {
                stats.hits += 1;
                inner.remember(space, key);
                return Ok(Some(bytes));
            }
            Ok(Some(Err(unsound))) => {
                stats.damaged += 1;
                inner.failures.record_damaged(&name(space, key), &unsound.to_string());
            }
            Ok(None) => stats.misses += 1,
            Err(error) => {
                stats.count_error(&error);
                return Err(error);
            }
        }
        inner.known.lock().remove(&(space, key));
        Ok(None)
    }

    /// Stores an entry. A second put under the same key is allowed.
    ///
    /// # Errors
    /// The store does not take it.
    pub async fn put(&self, space: Space, key: [u8; 32], bytes: Bytes) -> Result<(), TierError> {
        let inner = &self.inner;
        let most = inner.config.entry_bytes_max;
        if bytes.len() as u64 > most {
            return Err(TierError::NoRoom(format!("{} bytes, at most {most} are stored", bytes.len())));
        }
        let put = inner.place.put(space, key, wrap(space, key, &bytes));
        inner.request("write", inner.config.put_time_max, put).await?;
        inner.remember(space, key);
        Ok(())
    }

    /// Whether an entry exists, valid or not. Only for background uploads: a read sends no request before its
    /// GET.
    pub(crate) async fn has(&self, space: Space, key: [u8; 32]) -> Result<bool, TierError> {
        let has = self.inner.place.has(space, key);
        let is_there = self.inner.request("look", self.inner.config.get_time_max, has).await?;
        if is_there {
            self.inner.remember(space, key);
        }
        Ok(is_there)
    }

    /// Removes an entry, if it exists.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn remove(&self, space: Space, key: [u8; 32]) -> Result<(), TierError> {
        self.inner.known.lock().remove(&(space, key));
        let remove = self.inner.place.remove(space, key);
        self.inner.request("removal", self.inner.config.put_time_max, remove).await
    }
}
