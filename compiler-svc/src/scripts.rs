//! Incoming scripts, and data of other cells. Data that is not a script is stored as well, and never
//! compiled.

use antares_abi::Sha256Digest;
use antares_cache::{CacheError, Owner, Put, Rejection, Space};
use antares_serve::{Fault, chain};
use bytes::Bytes;

use crate::{
    blocking::{Panicked, blocking},
    compiler::Compiler,
};

/// Why an upload was not stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreScriptError {
    /// The bytes do not match the announced digest.
    #[error("the bytes have another digest")]
    WrongDigest,
    /// The store rejects them.
    #[error("the store cannot take it: {0:?}")]
    Rejected(Rejection),
    /// The tenant has used up its quota.
    #[error("{}", .0.message())]
    Quota(Fault),
    /// An internal error; the log has the details.
    #[error("internal error")]
    Internal,
}

impl Compiler {
    /// Stores a script or any other data under its digest, charged to `owner`; true if it was stored before.
    ///
    /// # Errors
    /// The digest differs, or the store is full.
    pub async fn store_script(
        &self,
        owner: Option<Owner>,
        digest: Sha256Digest,
        bytes: Bytes,
    ) -> Result<bool, StoreScriptError> {
        let size = bytes.len() as u64;
        let reserved = self.reserve(digest, size).await.map_err(StoreScriptError::Quota)?;
        let is_new = reserved.is_new;
        let already_stored = self.put_script(owner, digest, bytes).await?;
        reserved.keep().await;
        // Does not reveal that others have it.
        let was_there = already_stored && !(is_new && self.account.is_isolated());
        if !was_there {
            self.account.stored(size);
        }
        Ok(was_there)
    }

    async fn put_script(
        &self,
        owner: Option<Owner>,
        digest: Sha256Digest,
        bytes: Bytes,
    ) -> Result<bool, StoreScriptError> {
        let (cache, copy) = (self.cache().clone(), bytes.clone());
        match blocking(move || cache.put_of(owner, Space::Script, digest.0, &bytes)).await {
            Ok(Ok(put @ (Put::Stored | Put::AlreadyThere))) => {
                self.shared.tiers.offer_if_unknown(Space::Script, digest.0, copy);
                Ok(put == Put::AlreadyThere)
            }
            Ok(Ok(Put::Rejected(rejection))) => Err(StoreScriptError::Rejected(rejection)),
            Ok(Err(CacheError::WrongDigest { .. })) => Err(StoreScriptError::WrongDigest),
            Ok(Err(error)) => {
                tracing::error!(error = chain(&error), "a script was not stored");
                Err(StoreScriptError::Internal)
            }
            Err(Panicked) => Err(StoreScriptError::Internal),
        }
    }
}
