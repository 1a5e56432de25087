//! The local store as a tier.

use antares_cache::{Cache, Put};
use bytes::Bytes;
use futures_util::{FutureExt as _, future::BoxFuture};
use tokio::task::spawn_blocking;

use crate::{CacheTier, FailureKind, Space, TierError};

fn failed(error: &dyn std::error::Error) -> TierError {
    TierError::Failed { kind: FailureKind::Other, detail: error.to_string() }
}

/// Runs `work` on a thread that may block.
async fn on_disk<T: Send + 'static>(
    cache: &Cache,
    work: impl FnOnce(&Cache) -> T + Send + 'static,
) -> Result<T, TierError> {
    let cache = cache.clone();
    let joined = spawn_blocking(move || work(&cache)).await;
    joined.map_err(|error| failed(&error))
}

impl CacheTier for Cache {
    fn name(&self) -> &'static str {
        "sled"
    }

    fn get(&self, space: Space, key: [u8; 32]) -> BoxFuture<'_, Result<Option<Bytes>, TierError>> {
        async move { Ok(on_disk(self, move |cache| cache.get(space, key)).await?.map(Bytes::from)) }.boxed()
    }

    fn put(&self, space: Space, key: [u8; 32], bytes: Bytes) -> BoxFuture<'_, Result<(), TierError>> {
        async move {
            match on_disk(self, move |cache| cache.put(space, key, &bytes)).await? {
                Ok(Put::Stored | Put::AlreadyThere) => Ok(()),
                Ok(Put::Rejected(rejection)) => Err(TierError::NoRoom { detail: format!("{rejection:?}") }),
                Err(error) => Err(failed(&error)),
            }
        }
        .boxed()
    }

    fn remove(&self, space: Space, key: [u8; 32]) -> BoxFuture<'_, Result<(), TierError>> {
        async move { on_disk(self, move |cache| cache.remove(space, key)).await.map(|_| ()) }.boxed()
    }
}
