//! Native code that was compiled elsewhere, and whose it may be.

use std::{path::Path, sync::Arc};

use antares_trust::Keyring;

use crate::{Error, error::chain};

/// A shared object and what was signed about it: what `antares compile --server` and `GetArtifact` give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedArtifact {
    /// The shared object.
    pub library: Vec<u8>,
    /// The signed manifest.
    pub manifest: Vec<u8>,
}

/// The public keys whose native code is taken, and what was revoked.
#[derive(Clone, Debug)]
pub struct TrustedKeys {
    pub(crate) keyring: Arc<Keyring>,
}

impl TrustedKeys {
    /// The keys in a list (`trusted.json`), as `antares keys` makes them.
    ///
    /// # Errors
    /// The list cannot be read.
    pub fn read(list: impl AsRef<Path>) -> Result<Self, Error> {
        Self::of(Keyring::read(list.as_ref()))
    }

    /// The keys in a folder of `antares keys`.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, Error> {
        Self::of(Keyring::open(folder.as_ref()))
    }

    fn of(keyring: Result<Keyring, antares_trust::KeyError>) -> Result<Self, Error> {
        let keyring = keyring.map_err(|error| Error::Keys(chain(&error)))?;
        Ok(Self { keyring: Arc::new(keyring) })
    }
}
