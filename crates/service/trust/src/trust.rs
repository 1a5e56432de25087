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
    place: Location,
    current: RwLock<Arc<Keyring>>,
    seen: Mutex<Seen>,
    generation: AtomicU64,
}

/// Contents of the list.
#[derive(Debug, Default)]
struct Seen {
    /// The one in force.
    applied: Vec<u8>,
    /// One that could not be applied and was reported. It is tried again: the fault may have been the system's.
    refused: Option<Vec<u8>>,
}

#[derive(Debug)]
enum Location {
    /// A folder with a private key.
    Folder(PathBuf),
    /// A list without a private key.
    List(PathBuf),
}

impl Location {
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
        Self::new(Location::Folder(folder))
    }

    /// Verifies with the list at `path`.
    ///
    /// # Errors
    /// The file cannot be read, or is malformed.
    pub fn of_list(path: PathBuf) -> Result<Self, KeyError> {
        Self::new(Location::List(path))
    }

    fn new(place: Location) -> Result<Self, KeyError> {
        let seen = Seen { applied: fs::read(place.list()).unwrap_or_default(), refused: None };
        let current = RwLock::new(Arc::new(place.read()?));
        Ok(Self { place, current, seen: Mutex::new(seen), generation: AtomicU64::new(0) })
    }

    /// The current keyring.
    pub fn keyring(&self) -> Arc<Keyring> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Increases with every change; earlier verifications must then be repeated.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Revokes a key or a digest, here and in the folder.
    ///
    /// # Errors
    /// The name is neither a key nor a digest, or it is the signing key; there is no folder; a file cannot be
    /// read or written.
    pub fn revoke(&self, name: &str) -> Result<(), KeyError> {
        let Location::Folder(folder) = &self.place else { return Err(KeyError::NoSuch(name.to_owned())) };
        Keyring::revoke(folder, name)?;
        self.poll().map(drop)
    }

    /// Checks whether the list has changed, and reloads it if so. Reads a file.
    ///
    /// # Errors
    /// The list has changed and is invalid; reported once per change.
    pub fn poll(&self) -> Result<bool, KeyError> {
        let Ok(now) = fs::read(self.place.list()) else { return Ok(false) };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.applied == now {
            return Ok(false);
        }
        let keyring = match self.place.read() {
            Ok(keyring) => Arc::new(keyring),
            Err(_) if seen.refused.as_ref() == Some(&now) => return Ok(false),
            Err(error) => {
                seen.refused = Some(now);
                return Err(error);
            }
        };
        *seen = Seen { applied: now, refused: None };
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = keyring;
        self.generation.fetch_add(1, Ordering::AcqRel);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_could_not_be_applied_is_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let trust = Trust::of_folder(folder.path().to_owned()).unwrap();
        Keyring::generate(folder.path(), true).unwrap();
        let hidden = folder.path().with_extension("hidden");
        let files: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path()).collect();
        let keys: Vec<_> = files.iter().filter(|path| !path.ends_with(LIST)).collect();
        fs::create_dir(&hidden).unwrap();
        keys.iter().for_each(|key| fs::rename(key, hidden.join(key.file_name().unwrap())).unwrap());
        assert!(trust.poll().is_err());
        assert!(!trust.poll().unwrap(), "it is reported once");
        keys.iter().for_each(|key| fs::rename(hidden.join(key.file_name().unwrap()), key).unwrap());
        assert!(trust.poll().unwrap());
        fs::remove_dir(&hidden).unwrap();
    }
}
