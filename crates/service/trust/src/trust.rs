//! A keyring that is reloaded when its list changes.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use crate::keyring::{KeyError, Keyring, LIST};

/// The current keyring. If a changed list is invalid, the last valid keyring stays in force.
#[derive(Debug)]
pub struct Trust {
    /// The folder with a private key, if there is one.
    folder: Option<PathBuf>,
    list: PathBuf,
    current: ArcSwap<Keyring>,
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

impl Trust {
    /// Signs and verifies with the keys of `folder`; creates a first key if there is none.
    ///
    /// # Errors
    /// A file cannot be read or written, or is malformed.
    pub fn of_folder(folder: PathBuf) -> Result<Self, KeyError> {
        Keyring::open_or_make(&folder)?;
        Self::new(folder.join(LIST), Some(folder))
    }

    /// Verifies with the list at `path`.
    ///
    /// # Errors
    /// The file cannot be read, or is malformed.
    pub fn of_list(path: PathBuf) -> Result<Self, KeyError> {
        Self::new(path, None)
    }

    fn new(list: PathBuf, folder: Option<PathBuf>) -> Result<Self, KeyError> {
        let seen = Seen { applied: fs::read(&list).unwrap_or_default(), refused: None };
        let current = ArcSwap::from_pointee(read(folder.as_deref(), &list)?);
        Ok(Self { folder, list, current, seen: Mutex::new(seen), generation: AtomicU64::new(0) })
    }

    /// The current keyring.
    pub fn keyring(&self) -> Arc<Keyring> {
        self.current.load_full()
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
        let Some(folder) = &self.folder else { return Err(KeyError::NoSuch(name.to_owned())) };
        Keyring::revoke(folder, name)?;
        self.poll().map(drop)
    }

    /// Checks whether the list has changed, and reloads it if so. Reads a file.
    ///
    /// # Errors
    /// The list has changed and is invalid; reported once per change.
    pub fn poll(&self) -> Result<bool, KeyError> {
        let Ok(now) = fs::read(&self.list) else { return Ok(false) };
        let mut seen = self.seen.lock();
        if seen.applied == now {
            return Ok(false);
        }
        let keyring = match read(self.folder.as_deref(), &self.list) {
            Ok(keyring) => Arc::new(keyring),
            Err(_) if seen.refused.as_ref() == Some(&now) => return Ok(false),
            Err(error) => {
                seen.refused = Some(now);
                return Err(error);
            }
        };
        *seen = Seen { applied: now, refused: None };
        self.current.store(keyring);
        self.generation.fetch_add(1, Ordering::AcqRel);
        Ok(true)
    }
}

fn read(folder: Option<&Path>, list: &Path) -> Result<Keyring, KeyError> {
    folder.map_or_else(|| Keyring::read(list), Keyring::open)
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
