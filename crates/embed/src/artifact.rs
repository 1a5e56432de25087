//! Native code that was compiled elsewhere, and the keys that may sign it.

use std::{path::Path, sync::Arc};

use antares_trust::Keyring;

use crate::{Error, error::chain};

/// A shared object and its signed manifest, as `antares compile --server` and `GetArtifact` return them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedArtifact {
    /// The shared object.
    pub library: Vec<u8>,
    /// The signed manifest.
    pub manifest: Vec<u8>,
}

/// Trusted public keys, and revocations.
#[derive(Clone, Debug)]
pub struct TrustedKeys {
    pub(crate) keyring: Arc<Keyring>,
}

impl TrustedKeys {
    /// Reads the keys in a list (`trusted.json`) of `antares keys`.
    ///
    /// # Errors
    /// The list cannot be read.
    pub fn read(list: impl AsRef<Path>) -> Result<Self, Error> {
        Self::of(Keyring::read(list.as_ref()))
    }

    /// Opens the keys in a folder of `antares keys`.
    ///
    /// # Errors
    /// There are no keys, or they cannot be read.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, Error> {
        Self::of(Keyring::open(folder.as_ref()))
    }

    fn of(keyring: Result<Keyring, antares_trust::KeyError>) -> Result<Self, Error> {
        let keyring = keyring.map_err(|error| Error::Keys(chain(&error)))?;
        Ok(Self { keyring: Arc::new(keyring) })
    }
}
