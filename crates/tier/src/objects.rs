//! The tier that many servers share: objects under content keys, read with a deadline, written from a queue.
//!
//! A read is one GET: nothing is asked beforehand. That an entry is there is remembered, that it is not is not.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use antares_abi::LIBRARY_BYTES_MAX;
use bytes::Bytes;
use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture};
use object_store::{ObjectStoreExt as _, PutPayload, WriteMultipart, path::Path};
use tokio::sync::Semaphore;

use crate::{
    CacheTier, SharedStats, Space, StoreLocation, TierError, Unsound,
    breaker::{Breaker, BreakerState},
    object::{HEAD_BYTES, unwrap, wrap},
    stats::{Reads, add},
    upload::Uploads,
};

/// Entries that are remembered to be there.
const KNOWN_MAX: usize = 1 << 17;

/// Objects beyond this are written in parts of this size, bytes.
const PART_BYTES: usize = 8 << 20;

/// Version of the layout, in the name of each object.
const LAYOUT: &str = "v1";

/// Limits of the shared tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedConfig {
    /// How long a read may take.
    pub get_time_max: Duration,
    /// How long one attempt of a write may take.
    pub put_time_max: Duration,
    /// How long a write is tried again.
    pub upload_time_max: Duration,
    /// Reads at once.
    pub gets_max: usize,
    /// Writes at once.
    pub puts_max: usize,
    /// Writes that wait.
    pub queue_max: usize,
    /// Their bytes.
    pub queue_bytes_max: usize,
    /// Longest entry, bytes.
    pub entry_bytes_max: u64,
}

impl Default for SharedConfig {
    fn default() -> Self {
        Self {
            get_time_max: Duration::from_secs(1),
            put_time_max: Duration::from_secs(30),
            upload_time_max: Duration::from_secs(600),
            gets_max: 64,
            puts_max: 4,
            queue_max: 4_096,
            queue_bytes_max: 256 << 20,
            entry_bytes_max: LIBRARY_BYTES_MAX,
        }
    }
}

/// An object of the tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedObject {
    /// Space of its entry.
    pub space: Space,
    /// Key of its entry.
    pub key: [u8; 32],
    /// Length of its entry, bytes.
    pub bytes: u64,
    /// Second since 1970 at which it was written.
    pub written: i64,
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
    pub(crate) breaker: Breaker,
    gets: Semaphore,
    reads: Reads,
    pub(crate) uploads: Uploads,
    known: Mutex<HashSet<(Space, [u8; 32])>>,
}

/// Tells the breaker of a request whose caller went away.
struct Going<'a> {
    breaker: &'a Breaker,
    is_told: bool,
}

impl Drop for Going<'_> {
    fn drop(&mut self) {
        if !self.is_told {
            self.breaker.forget();
        }
    }
}

fn failed(error: &object_store::Error) -> TierError {
    let mut detail = error.to_string().replace(['\n', '\r'], " ");
    let cut = (0..=300.min(detail.len())).rev().find(|at| detail.is_char_boundary(*at)).unwrap_or(0);
    detail.truncate(cut);
    TierError::Failed { detail }
}

impl Inner {
    fn path(&self, space: Space, key: [u8; 32]) -> Path {
        let name: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        let path = self.place.prefix.clone().join(LAYOUT).join(space.name());
        path.join(name[..2].to_owned()).join(name)
    }

    fn known(&self) -> MutexGuard<'_, HashSet<(Space, [u8; 32])>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn remember(&self, space: Space, key: [u8; 32]) {
        let mut known = self.known();
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert((space, key));
    }

    /// One request to the store, within `most` and as the breaker lets it.
    pub(crate) async fn ask<T>(
        &self,
        most: Duration,
        request: impl Future<Output = Result<T, object_store::Error>>,
    ) -> Result<Option<T>, TierError> {
        if !self.breaker.admits(Instant::now()) {
            return Err(TierError::LeftAlone);
        }
        let mut going = Going { breaker: &self.breaker, is_told: false };
        let asked = tokio::time::timeout(most, request).await;
        going.is_told = true;
        let result = match asked {
            Ok(Ok(answer)) => Ok(Some(answer)),
            Ok(Err(object_store::Error::NotFound { .. })) => Ok(None),
            Ok(Err(error)) => Err(failed(&error)),
            Err(_) => {
                let deadline_ms = u64::try_from(most.as_millis()).unwrap_or(u64::MAX);
                Err(TierError::Deadline { deadline_ms })
            }
        };
        self.breaker.note(result.is_ok(), Instant::now());
        result
    }

    async fn read(&self, space: Space, key: [u8; 32]) -> Result<Option<Result<Bytes, Unsound>>, TierError> {
        let requests_max = self.config.gets_max;
        let _turn = self.gets.try_acquire().map_err(|_| TierError::Busy { requests_max })?;
        let path = self.path(space, key);
        let request = async {
            let got = self.place.store.get(&path).await?;
            if got.meta.size > self.config.entry_bytes_max.saturating_add(HEAD_BYTES as u64) {
                return Ok(Err(Unsound::TooLong));
            }
            got.bytes().await.map(Ok)
        };
        let object = self.ask(self.config.get_time_max, request).await?;
        let Some(object) = object else { return Ok(None) };
        Ok(Some(object.and_then(|object| unwrap(space, key, &object))))
    }

    async fn get(&self, space: Space, key: [u8; 32]) -> Result<Option<Bytes>, TierError> {
        match self.read(space, key).await {
            Ok(Some(Ok(bytes))) => {
                add(&self.reads.hits);
                self.remember(space, key);
                Ok(Some(bytes))
            }
            Ok(Some(Err(unsound))) => {
                add(&self.reads.damaged);
                self.known().remove(&(space, key));
                tracing::error!(space = space.name(), %unsound, "an object of the shared tier is damaged");
                Ok(None)
            }
            Ok(None) => {
                add(&self.reads.misses);
                self.known().remove(&(space, key));
                Ok(None)
            }
            Err(error) => {
                self.reads.note_error(&error);
                Err(error)
            }
        }
    }

    pub(crate) async fn put(&self, space: Space, key: [u8; 32], bytes: &Bytes) -> Result<(), TierError> {
        if bytes.len() as u64 > self.config.entry_bytes_max {
            let detail = format!("{} bytes, at most {} are stored", bytes.len(), self.config.entry_bytes_max);
            return Err(TierError::NoRoom { detail });
        }
        let (path, object) = (self.path(space, key), wrap(space, key, bytes));
        let request = async {
            if object.len() <= PART_BYTES {
                return self.place.store.put(&path, PutPayload::from(object)).await.map(drop);
            }
            let upload = self.place.store.put_multipart(&path).await?;
            let mut parts = WriteMultipart::new_with_chunk_size(upload, PART_BYTES);
            parts.put(object);
            parts.finish().await.map(drop)
        };
        let put = self.ask(self.config.put_time_max, request).await?;
        put.ok_or_else(|| TierError::Failed { detail: "there is no such bucket".to_owned() })?;
        self.remember(space, key);
        Ok(())
    }

    /// Whether an entry is there, sound or not. For uploads that nobody waits for: a read is made without asking first.
    pub(crate) async fn has(&self, space: Space, key: [u8; 32]) -> Result<bool, TierError> {
        let path = self.path(space, key);
        let head = self.ask(self.config.get_time_max, self.place.store.head(&path)).await?;
        if head.is_some() {
            self.remember(space, key);
        }
        Ok(head.is_some())
    }
}

impl Shared {
    /// The tier at `place`. Call it within a runtime: what is offered is written by tasks of it.
    #[must_use]
    pub fn open(place: StoreLocation, config: SharedConfig) -> Self {
        let inner = Inner {
            place,
            config,
            breaker: Breaker::default(),
            gets: Semaphore::new(config.gets_max),
            reads: Reads::default(),
            uploads: Uploads::new(&config),
            known: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Where it is.
    #[must_use]
    pub fn url(&self) -> &str {
        self.inner.place.url()
    }

    /// Whether the entry was there when it was last asked for or written.
    #[must_use]
    pub fn knows(&self, space: Space, key: [u8; 32]) -> bool {
        self.inner.known().contains(&(space, key))
    }

    /// Numbers since the start.
    #[must_use]
    pub fn stats(&self) -> SharedStats {
        let reads = &self.inner.reads;
        SharedStats {
            hits: reads.hits.load(Relaxed),
            misses: reads.misses.load(Relaxed),
            damaged: reads.damaged.load(Relaxed),
            skipped: reads.skipped.load(Relaxed),
            late: reads.late.load(Relaxed),
            failed: reads.failed.load(Relaxed),
            uploads: self.inner.uploads.stats(),
            breaker: self.breaker(),
        }
    }

    /// What the breaker lets through.
    #[must_use]
    pub fn breaker(&self) -> BreakerState {
        self.inner.breaker.state()
    }

    /// Calls `each` for all objects of a space, in the order of the store, until it says no. For people: it may take long.
    ///
    /// # Errors
    /// The store cannot be asked.
    pub async fn list(
        &self,
        space: Space,
        mut each: impl FnMut(ListedObject) -> bool,
    ) -> Result<(), TierError> {
        let folder = self.inner.place.prefix.clone().join(LAYOUT).join(space.name());
        let mut objects = self.inner.place.store.list(Some(&folder));
        while let Some(object) = objects.next().await {
            let object = object.map_err(|error| failed(&error))?;
            let Some(key) = object.location.filename().and_then(key_of) else { continue };
            let bytes = object.size.saturating_sub(HEAD_BYTES as u64);
            if !each(ListedObject { space, key, bytes, written: object.last_modified.timestamp() }) {
                break;
            }
        }
        Ok(())
    }
}

fn key_of(name: &str) -> Option<[u8; 32]> {
    let digits = name.as_bytes();
    if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let mut key = [0; 32];
    for (byte, at) in key.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(name.get(at..at + 2)?, 16).ok()?;
    }
    Some(key)
}

impl CacheTier for Shared {
    fn name(&self) -> &'static str {
        "shared"
    }

    fn get(&self, space: Space, key: [u8; 32]) -> BoxFuture<'_, Result<Option<Bytes>, TierError>> {
        self.inner.get(space, key).boxed()
    }

    fn put(&self, space: Space, key: [u8; 32], bytes: Bytes) -> BoxFuture<'_, Result<(), TierError>> {
        async move { self.inner.put(space, key, &bytes).await }.boxed()
    }

    fn remove(&self, space: Space, key: [u8; 32]) -> BoxFuture<'_, Result<(), TierError>> {
        async move {
            let path = self.inner.path(space, key);
            self.inner.known().remove(&(space, key));
            self.inner
                .ask(self.inner.config.put_time_max, self.inner.place.store.delete(&path))
                .await
                .map(drop)
        }
        .boxed()
    }
}
