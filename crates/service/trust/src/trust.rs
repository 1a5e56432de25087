//! A keyring that is reloaded when its list changes.

use std::{
    fs,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::keyring::{KeyError, Keyring, LIST};

/// The current keyring. If a changed list is invalid, the last valid keyring stays in force.
#[derive(Debug)]
pub struct Trust {
    place: Place,
    current: RwLock<Arc<Keyring>>,
    seen: Mutex<Vec<u8>>,
    generation: AtomicU64,
}

#[derive(Debug)]
enum Place {
    /// A folder with a private key.
    Folder(PathBuf),
    /// A list without a private key.
    List(PathBuf),
}

impl Place {
    fn list(&self) -> PathBuf {
        match self {
            Self::Folder(folder) => folder.join(LIST),
            Self::List(path) => path.clone(),
        }
    }

    fn read(&self) -> Result<Keyring, KeyError> {
        match self {
            Self::Folder(folder) => Keyring::open(folder),
            Self::List(path) => Keyring::read(path),
        }
    }
}

impl Trust {
    /// Signs and verifies with the keys of `folder`; creates a first key if there is none.
    ///
    /// # Errors
    /// A file cannot be read or written, or is malformed.
    pub fn of_folder(folder: PathBuf) -> Result<Self, KeyError> {
        Keyring::open_or_make(&folder)?;
        Self::new(Place::Folder(folder))
    }

    /// Verifies with the list at `path`.
    ///
    /// # Errors
    /// The file cannot be read, or is malformed.
    pub fn of_list(path: PathBuf) -> Result<Self, KeyError> {
        Self::new(Place::List(path))
    }

    fn new(place: Place) -> Result<Self, KeyError> {
        let seen = fs::read(place.list()).unwrap_or_default();
        let current = RwLock::new(Arc::new(place.read()?));
        Ok(Self { place, current, seen: Mutex::new(seen), generation: AtomicU64::new(0) })
    }

    /// The current keyring.
    #[must_use]
    pub fn keyring(&self) -> Arc<Keyring> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Increases with every change; earlier verifications must then be repeated.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Revokes a key or a digest, here and in the folder.
    ///
    /// # Errors
    /// The name is neither a key nor a digest, or it is the signing key; there is no folder; a file cannot be
    /// read or written.
    pub fn revoke(&self, name: &str) -> Result<(), KeyError> {
        let Place::Folder(folder) = &self.place else { return Err(KeyError::NoSuch(name.to_owned())) };
        Keyring::revoke(folder, name)?;
        self.look().map(drop)
    }

    /// Checks whether the list has changed, and reloads it if so. Reads a file.
    ///
    /// # Errors
    /// The list has changed and is invalid; reported once per change.
    pub fn look(&self) -> Result<bool, KeyError> {
        let Ok(now) = fs::read(self.place.list()) else { return Ok(false) };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if *seen == now {
            return Ok(false);
        }
        *seen = now;
        let keyring = Arc::new(self.place.read()?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = keyring;
        self.generation.fetch_add(1, Ordering::AcqRel);
        Ok(true)
    }
}
