//! A bucket accessed through its client.

use std::{collections::HashSet, time::Duration};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream::BoxStream};
use hex::FromHex as _;
use object_store::{
    ObjectStore, ObjectStoreExt as _, PutPayload, WriteMultipart,
    list::{PaginatedListOptions, PaginatedListStore},
    path::Path,
};

use crate::{
    Space, StoreLocation,
    failure::{Failure, FailureKind},
    object::HEAD_BYTES,
};

/// Larger objects are uploaded in parts of this size, in bytes.
const PART_BYTES: usize = 8 << 20;

/// Deadline of a page of a listing.
const PAGE_TIME_MAX: Duration = Duration::from_secs(30);

/// Maximum pages of a listing; most stores return a thousand objects per page.
const PAGES_MAX: usize = 100_000;

/// An object of the tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedObject {
    /// Space of its entry.
    pub space: Space,
    /// Key of its entry.
    pub key: [u8; 32],
    /// Length of its entry, bytes.
    pub bytes: u64,
    /// Time of the write, in seconds since 1970.
    pub written: i64,
}

/// Version of the layout, in the name of each object.
pub(crate) const LAYOUT: &str = "v1";

/// An object whose bytes are being read.
pub(crate) struct Found {
    /// Length of the object in bytes.
    pub(crate) length: u64,
    pub(crate) chunks: BoxStream<'static, Result<Bytes, Failure>>,
}

/// A client that lists pages, too.
pub(crate) trait Bucket: ObjectStore + PaginatedListStore {}

impl<T: ObjectStore + PaginatedListStore> Bucket for T {}

fn failed(error: &object_store::Error) -> Failure {
    Failure::of(error).unwrap_or_else(|| Failure::new(FailureKind::NoBucket, &error.to_string()))
}

/// Converts the error of a missing object to `None`.
fn unless_absent<T>(result: object_store::Result<T>) -> Result<Option<T>, Failure> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) => Failure::of(&error).map_or(Ok(None), Err),
    }
}

fn listed(space: Space, object: &object_store::ObjectMeta) -> Option<ListedObject> {
    let key = object.location.filename().and_then(|name| <[u8; 32]>::from_hex(name).ok())?;
    let bytes = object.size.saturating_sub(HEAD_BYTES as u64);
    Some(ListedObject { space, key, bytes, written: object.last_modified.timestamp() })
}

impl StoreLocation {
    fn folder(&self, space: Space) -> Path {
        self.prefix.clone().join(LAYOUT).join(space.name())
    }

    fn path(&self, space: Space, key: [u8; 32]) -> Path {
        self.folder(space).join(hex::encode(&key[..1])).join(hex::encode(key))
    }

    pub(crate) async fn get(&self, space: Space, key: [u8; 32]) -> Result<Option<Found>, Failure> {
        let got = unless_absent(self.store.get(&self.path(space, key)).await)?;
        Ok(got.map(|got| {
            let length = got.meta.size;
            let chunks = got.into_stream().map(|chunk| chunk.map_err(|error| failed(&error)));
            Found { length, chunks: chunks.boxed() }
        }))
    }

    pub(crate) async fn put(&self, space: Space, key: [u8; 32], object: Bytes) -> Result<(), Failure> {
        let (path, store) = (self.path(space, key), &self.store);
        let put = async {
            if object.len() <= PART_BYTES {
                return store.put(&path, PutPayload::from(object)).await.map(drop);
            }
            let upload = store.put_multipart(&path).await?;
            let mut parts = WriteMultipart::new_with_chunk_size(upload, PART_BYTES);
            parts.put(object);
            parts.finish().await.map(drop)
        };
        // A put that fails with "not found" means that the bucket does not exist.
        put.await.map_err(|error| failed(&error))
    }

    pub(crate) async fn has(&self, space: Space, key: [u8; 32]) -> Result<bool, Failure> {
        let head = self.store.head(&self.path(space, key)).await;
        Ok(unless_absent(head)?.is_some())
    }

    pub(crate) async fn remove(&self, space: Space, key: [u8; 32]) -> Result<(), Failure> {
        unless_absent(self.store.delete(&self.path(space, key)).await).map(drop)
    }

    pub(crate) async fn list(
        &self,
        space: Space,
        each: &mut (dyn FnMut(ListedObject) -> bool + Send),
    ) -> Result<(), Failure> {
        let folder = format!("{}/", self.folder(space));
        let (mut token, mut seen) = (None, HashSet::new());
        for _ in 0..PAGES_MAX {
            let options = PaginatedListOptions { page_token: token, ..PaginatedListOptions::default() };
            let page =
                tokio::time::timeout(PAGE_TIME_MAX, self.store.list_paginated(Some(&folder), options)).await;
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
