//! Bytes in sealed memory files, which workers map.

use std::io;

use antares_abi::Sha256Digest;
use antares_pool::{Sealed, is_exhausted};
use antares_serve::chain;
use bytes::Bytes;
use tracing::Span;

use crate::{grpc::status::out_of_resources, source::SourceError};

/// A sealed memory file with these bytes.
pub(crate) async fn seal(name: &'static str, bytes: Bytes) -> Result<Sealed, SourceError> {
    sealed_by(move || Sealed::new(name, &bytes)).await
}

/// The same for bytes with a known digest.
pub(crate) async fn seal_known(
    name: &'static str,
    bytes: Bytes,
    digest: Sha256Digest,
) -> Result<Sealed, SourceError> {
    sealed_by(move || Sealed::of_known(name, &bytes, digest)).await
}

async fn sealed_by(
    seal: impl FnOnce() -> io::Result<Sealed> + Send + 'static,
) -> Result<Sealed, SourceError> {
    let span = Span::current();
    let sealed = tokio::task::spawn_blocking(move || span.in_scope(seal));
    match sealed.await {
        Ok(Ok(sealed)) => Ok(sealed),
        Ok(Err(error)) => {
            tracing::error!(error = chain(&error), "a memory file cannot be made");
            Err(if is_exhausted(&error) { out_of_resources() } else { SourceError::Internal })
        }
        // It panicked; the hook has logged where.
        Err(_) => Err(SourceError::Internal),
    }
}
