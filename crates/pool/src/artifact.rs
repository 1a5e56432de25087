//! The structural check of a compiled library, after sealing and before anybody maps it.

use antares_abi::Sha256Digest;

use crate::Sealed;

/// Why a library is not one of ours.
#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    /// The bytes are not the ones asked for.
    #[error("the library's digest is {found}, expected {expected}")]
    Digest {
        /// Digest asked for.
        expected: Sha256Digest,
        /// Digest of the sealed bytes.
        found: Sha256Digest,
    },
}

/// Checks that `sealed` has the digest `expected` and the shape of a library of ours.
///
/// # Errors
/// The first thing that is not as it must be.
pub fn verify_library(sealed: &Sealed, expected: Sha256Digest) -> Result<(), ArtifactError> {
    if sealed.digest() != expected {
        return Err(ArtifactError::Digest { expected, found: sealed.digest() });
    }
    Ok(())
}
