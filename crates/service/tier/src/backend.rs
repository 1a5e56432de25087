//! What the shared tier asks of a store, whichever it is: a client of object stores, or a folder.

use bytes::Bytes;

use crate::{
    Space,
    failure::Failure,
    folder::Folder,
    found::{Found, ListedObject},
    remote::Remote,
};

/// A store.
#[derive(Clone, Debug)]
pub(crate) enum Backend {
    Remote(Remote),
    Folder(Folder),
}

impl Backend {
    pub(crate) async fn get(&self, space: Space, key: [u8; 32]) -> Result<Option<Found>, Failure> {
        match self {
            Self::Remote(remote) => remote.get(space, key).await,
            Self::Folder(folder) => folder.get(space, key).await,
        }
    }

    pub(crate) async fn put(&self, space: Space, key: [u8; 32], object: Bytes) -> Result<(), Failure> {
        match self {
            Self::Remote(remote) => remote.put(space, key, object).await,
            Self::Folder(folder) => folder.put(space, key, object).await,
        }
    }

    pub(crate) async fn has(&self, space: Space, key: [u8; 32]) -> Result<bool, Failure> {
        match self {
            Self::Remote(remote) => remote.has(space, key).await,
            Self::Folder(folder) => folder.has(space, key).await,
        }
    }

    pub(crate) async fn remove(&self, space: Space, key: [u8; 32]) -> Result<(), Failure> {
        match self {
            Self::Remote(remote) => remote.remove(space, key).await,
            Self::Folder(folder) => folder.remove(space, key).await,
        }
    }

    /// Calls `each` for its objects, in the order of the store, until it says no.
    pub(crate) async fn list(
        &self,
        space: Space,
        each: &mut (dyn FnMut(ListedObject) -> bool + Send),
    ) -> Result<(), Failure> {
        match self {
            Self::Remote(remote) => remote.list(space, each).await,
            Self::Folder(folder) => folder.list(space, each).await,
        }
    }
}
