//! The folder: a file for each hour, replaced whole; a lock; a name of its own.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use rustix::fs::{FlockOperation, flock};
use tempfile::NamedTempFile;

use crate::{
    error::UsageError,
    hour::Hour,
    table::{Tenants, decode, encode},
};

const LOCK: &str = "lock";
const INSTANCE: &str = "instance";
const EXPORTED: &str = "exported";
const HOUR: &str = "usage";
const DAMAGED: &str = "damaged";

/// Longest file of an hour that is read, bytes: far beyond what any limit of tenants lets in.
const HOUR_BYTES_MAX: u64 = 1 << 30;

/// An open folder. Nobody else has it open.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    /// The folder's own name, whatever process has it open.
    pub(crate) instance: String,
    _lock: File,
}

impl Folder {
    /// Opens `path`, or makes it.
    pub(crate) fn open(path: &Path) -> Result<Self, UsageError> {
        fs::create_dir_all(path).map_err(UsageError::at(path))?;
        let lock = path.join(LOCK);
        let file = File::options().create(true).append(true).open(&lock).map_err(UsageError::at(&lock))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(UsageError::Held { path: path.to_owned() }),
            Err(error) => return Err(UsageError::at(lock)(error.into())),
        }
        let mut folder = Self { path: path.to_owned(), instance: String::new(), _lock: file };
        folder.instance = folder.own_name()?;
        Ok(folder)
    }

    fn own_name(&self) -> Result<String, UsageError> {
        if let Some(name) = self.word(INSTANCE)? {
            return Ok(name);
        }
        let name = hex::encode(rand::random::<[u8; 8]>());
        self.put_word(INSTANCE, &name)?;
        Ok(name)
    }

    /// The hours that there are, the first one first.
    pub(crate) fn hours(&self) -> Result<Vec<Hour>, UsageError> {
        let entries = fs::read_dir(&self.path).map_err(UsageError::at(&self.path))?;
        let mut hours = Vec::new();
        for entry in entries {
            let path = entry.map_err(UsageError::at(&self.path))?.path();
            let is_hour = path.extension().is_some_and(|extension| extension == HOUR);
            let name = path.file_stem().and_then(|name| name.to_str()).filter(|_| is_hour);
            hours.extend(name.and_then(|name| name.parse::<Hour>().ok()));
        }
        hours.sort_unstable();
        Ok(hours)
    }

    /// What there is of `hour`. A file that cannot be what was written is set aside, and told by `damaged`.
    pub(crate) fn read(&self, hour: Hour, damaged: impl FnOnce()) -> Result<Tenants, UsageError> {
        let path = self.file(hour);
        let text = match self.text(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Tenants::default()),
            // Bytes that are no text.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => String::new(),
            Err(error) => return Err(UsageError::at(path)(error)),
        };
        decode(hour, &text).or_else(|damage| {
            tracing::error!(path = %path.display(), damage, "a file of usage is damaged and is set aside");
            damaged();
            fs::rename(&path, path.with_extension(DAMAGED)).map_err(UsageError::at(&path))?;
            Ok(Tenants::default())
        })
    }

    fn text(&self, path: &Path) -> io::Result<String> {
        if fs::metadata(path)?.len() > HOUR_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        fs::read_to_string(path)
    }

    /// Puts `tenants` in place of what there is of `hour`; kept over a loss of power when it returns.
    pub(crate) fn write(&self, hour: Hour, tenants: &Tenants) -> Result<(), UsageError> {
        let path = self.file(hour);
        replace(&self.path, &path, encode(hour, tenants).as_bytes()).map_err(UsageError::at(path))
    }

    pub(crate) fn remove(&self, hour: Hour) -> Result<(), UsageError> {
        let path = self.file(hour);
        fs::remove_file(&path).map_err(UsageError::at(path))
    }

    /// The last hour that was exported.
    pub(crate) fn exported(&self) -> Result<Option<Hour>, UsageError> {
        Ok(self.word(EXPORTED)?.and_then(|word| word.parse().ok()))
    }

    pub(crate) fn put_exported(&self, hour: Hour) -> Result<(), UsageError> {
        self.put_word(EXPORTED, &hour.to_string())
    }

    fn file(&self, hour: Hour) -> PathBuf {
        self.path.join(format!("{hour}.{HOUR}"))
    }

    fn word(&self, name: &str) -> Result<Option<String>, UsageError> {
        let path = self.path.join(name);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text.trim().to_owned()).filter(|word| !word.is_empty())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(UsageError::at(path)(error)),
        }
    }

    fn put_word(&self, name: &str, word: &str) -> Result<(), UsageError> {
        let path = self.path.join(name);
        replace(&self.path, &path, format!("{word}\n").as_bytes()).map_err(UsageError::at(path))
    }
}

/// Puts a file with `bytes` in the place of `path`, whole or not at all.
pub(crate) fn replace(folder: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = NamedTempFile::with_prefix_in(".new-", folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    File::open(folder)?.sync_all()
}
