//! An object store behind its client, which is made anew when the files with its credentials change.

use std::{
    collections::HashSet,
    fmt,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures_util::StreamExt as _;
use object_store::{
    ObjectStore, ObjectStoreExt as _, PutPayload, WriteMultipart,
    list::{PaginatedListOptions, PaginatedListStore},
    path::Path,
};

use crate::{
    Space,
    credentials::Stamp,
    failure::{Failure, FailureKind},
    found::{Found, LAYOUT, ListedObject, hex, key_of},
    object::HEAD_BYTES,
};

/// Objects beyond this are written in parts of this size, bytes.
const PART_BYTES: usize = 8 << 20;

/// How long a page of a listing may take.
const PAGE_TIME_MAX: Duration = Duration::from_secs(30);

/// Pages of a listing; a page has a thousand objects in most stores.
const PAGES_MAX: usize = 100_000;

/// How often it is looked whether files with credentials have changed.
const LOOK_STEP: Duration = Duration::from_secs(2);

/// A client, as an object store and as what gives pages of lists.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) store: Arc<dyn ObjectStore>,
    /// None for the one in memory.
    pub(crate) pages: Option<Arc<dyn PaginatedListStore>>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.store.fmt(f)
    }
}

/// Makes the client anew.
pub(crate) type Open = Box<dyn Fn() -> Result<Client, object_store::Error> + Send + Sync>;

/// When and how a client is made anew.
struct Renewal {
    open: Open,
    seen: Mutex<Stamp>,
    looked: Mutex<Instant>,
    is_looking: AtomicBool,
}

struct Inner {
    prefix: Path,
    client: RwLock<Client>,
    renewal: Option<Renewal>,
}

/// The store.
#[derive(Clone)]
pub(crate) struct Remote(Arc<Inner>);

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("prefix", &self.0.prefix).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inner {
    /// Looks at the files, which may hang, and takes a new client if they have changed.
    fn look(&self, renewal: &Renewal) {
        let now = Stamp::now();
        if *lock(&renewal.seen) != now {
            match now.is_whole().then(|| (renewal.open)()) {
                Some(Ok(client)) => {
                    *self.client.write().unwrap_or_else(PoisonError::into_inner) = client;
                    tracing::info!("credentials of the shared tier were read again");
                }
                Some(Err(error)) => {
                    tracing::warn!(%error, "changed credentials are of no use: the old ones stay")
                }
                None => tracing::warn!("changed credentials are incomplete: the old ones stay"),
            }
            *lock(&renewal.seen) = now;
        }
        renewal.is_looking.store(false, Relaxed);
    }
}

fn failed(error: &object_store::Error) -> Failure {
    Failure::of(error).unwrap_or_else(|| Failure::new(FailureKind::NoBucket, &error.to_string()))
}

/// None where the object is not there.
fn unless_absent<T>(result: object_store::Result<T>) -> Result<Option<T>, Failure> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) => Failure::of(&error).map_or(Ok(None), Err),
    }
}

fn listed(space: Space, object: &object_store::ObjectMeta) -> Option<ListedObject> {
    let key = object.location.filename().and_then(key_of)?;
    let bytes = object.size.saturating_sub(HEAD_BYTES as u64);
    Some(ListedObject { space, key, bytes, written: object.last_modified.timestamp() })
}

impl Remote {
    /// The store at `prefix` of `client`, which `open` makes anew when its credentials change.
    pub(crate) fn new(prefix: Path, client: Client, open: Option<Open>) -> Self {
        let renewal = open.map(|open| Renewal {
            open,
            seen: Mutex::new(Stamp::now()),
            looked: Mutex::new(Instant::now()),
            is_looking: AtomicBool::new(false),
        });
        Self(Arc::new(Inner { prefix, client: RwLock::new(client), renewal }))
    }

    /// The client in force. Now and then it is looked, beside, whether there is a newer one.
    fn client(&self) -> Client {
        if let Some(renewal) = &self.0.renewal {
            let mut looked = lock(&renewal.looked);
            if looked.elapsed() >= LOOK_STEP && !renewal.is_looking.swap(true, Relaxed) {
                *looked = Instant::now();
                let inner = self.0.clone();
                let look = move || inner.renewal.iter().for_each(|renewal| inner.look(renewal));
                if thread::Builder::new().name("antares-tier".to_owned()).spawn(look).is_err() {
                    renewal.is_looking.store(false, Relaxed);
                }
            }
        }
        self.0.client.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn folder(&self, space: Space) -> Path {
        self.0.prefix.clone().join(LAYOUT).join(space.name())
    }

    fn path(&self, space: Space, key: [u8; 32]) -> Path {
        self.folder(space).join(hex(&key[..1])).join(hex(&key))
    }

    pub(crate) async fn get(&self, space: Space, key: [u8; 32]) -> Result<Option<Found>, Failure> {
        let got = unless_absent(self.client().store.get(&self.path(space, key)).await)?;
        Ok(got.map(|got| {
            let length = got.meta.size;
            let chunks = got.into_stream().map(|chunk| chunk.map_err(|error| failed(&error)));
            Found::Object { length, chunks: chunks.boxed() }
        }))
    }

    pub(crate) async fn put(&self, space: Space, key: [u8; 32], object: Bytes) -> Result<(), Failure> {
        let (path, store) = (self.path(space, key), self.client().store);
        let put = async {
            if object.len() <= PART_BYTES {
                return store.put(&path, PutPayload::from(object)).await.map(drop);
            }
            let upload = store.put_multipart(&path).await?;
            let mut parts = WriteMultipart::new_with_chunk_size(upload, PART_BYTES);
            parts.put(object);
            parts.finish().await.map(drop)
        };
        // What cannot be put where nothing is has no bucket.
        put.await.map_err(|error| failed(&error))
    }

    pub(crate) async fn has(&self, space: Space, key: [u8; 32]) -> Result<bool, Failure> {
        let head = self.client().store.head(&self.path(space, key)).await;
        Ok(unless_absent(head)?.is_some())
    }

    pub(crate) async fn remove(&self, space: Space, key: [u8; 32]) -> Result<(), Failure> {
        unless_absent(self.client().store.delete(&self.path(space, key)).await).map(drop)
    }

    pub(crate) async fn list(
        &self,
        space: Space,
        each: &mut (dyn FnMut(ListedObject) -> bool + Send),
    ) -> Result<(), Failure> {
        let client = self.client();
        let folder = format!("{}/", self.folder(space));
        let Some(pages) = client.pages else {
            let mut objects = client.store.list(Some(&self.folder(space)));
            while let Some(object) = objects.next().await {
                let object = object.map_err(|error| failed(&error))?;
                if !listed(space, &object).is_none_or(&mut *each) {
                    break;
                }
            }
            return Ok(());
        };
        let (mut token, mut seen) = (None, HashSet::new());
        for _ in 0..PAGES_MAX {
            let options = PaginatedListOptions { page_token: token, ..PaginatedListOptions::default() };
            let page =
                tokio::time::timeout(PAGE_TIME_MAX, pages.list_paginated(Some(&folder), options)).await;
            let page =
                page.map_err(|_| Failure::new(FailureKind::Late, "a page of the list takes too long"))?;
            let page = page.map_err(|error| failed(&error))?;
            if !page.result.objects.iter().filter_map(|object| listed(space, object)).all(&mut *each) {
                return Ok(());
            }
            let Some(next) = page.page_token.filter(|next| !next.is_empty()) else { return Ok(()) };
            if !seen.insert(next.clone()) {
                let problem = "the list never ends: the store gives a token of a page twice";
                return Err(Failure::new(FailureKind::NoStore, problem));
            }
            token = Some(next);
        }
        Err(Failure::new(FailureKind::NoStore, &format!("the list has more than {PAGES_MAX} pages")))
    }
}
