//! A cache of node data: in memory, and optionally in a folder. Entries never change, because their keys are
//! their hashes; readers hash them again.

use std::{
    fs,
    io::Read as _,
    path::{Path, PathBuf},
    time::SystemTime,
};

use bytes::Bytes;
use ckb_types::H256;
use parking_lot::Mutex;
use quick_cache::{Weighter, sync::Cache};
use strum::{IntoStaticStr, VariantNames};

use crate::limits::ANSWER_BYTES_MAX;

/// Kinds of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub(crate) enum Space {
    Transactions,
    Headers,
    Extensions,
}

type Key = (Space, [u8; 32]);

/// Overhead of an entry in bytes.
const ENTRY_BYTES: u64 = 128;

#[derive(Clone)]
struct InBytes;

impl Weighter<Key, Bytes> for InBytes {
    fn weight(&self, _: &Key, bytes: &Bytes) -> u64 {
        bytes.len() as u64 + ENTRY_BYTES
    }
}

/// The memory cache and the disk cache.
pub(crate) struct NodeCache {
    memory: Cache<Key, Bytes, InBytes>,
    disk: Option<Disk>,
}

impl NodeCache {
    /// Creates a cache with these capacities. An unusable folder is ignored.
    pub(crate) fn new(memory_bytes_max: u64, folder: Option<&Path>, disk_bytes_max: u64) -> Self {
        let items = usize::try_from(memory_bytes_max >> 12).unwrap_or(0).clamp(16, 1 << 16);
        let memory = Cache::with_weighter(items, memory_bytes_max, InBytes);
        Self { memory, disk: folder.map(|folder| Disk::new(folder, disk_bytes_max)) }
    }

    /// Looks up an entry and passes it to `taken`, which checks it against its hash.
    pub(crate) fn look_up<T>(
        &self,
        space: Space,
        hash: &H256,
        taken: impl Fn(&Bytes) -> Option<T>,
    ) -> Option<T> {
        let key = (space, hash.0);
        if let Some(found) = self.memory.get(&key).as_ref().and_then(&taken) {
            return Some(found);
        }
        let bytes = self.disk.as_ref()?.read(key)?;
        let found = taken(&bytes)?;
        self.memory.insert(key, bytes);
        Some(found)
    }

    /// Stores an entry.
    pub(crate) fn keep(&self, space: Space, hash: &H256, bytes: Bytes) {
        let key = (space, hash.0);
        self.disk.iter().for_each(|disk| disk.write(key, &bytes));
        self.memory.insert(key, bytes);
    }
}

/// A folder of files named by hash.
struct Disk {
    folder: PathBuf,
    bytes_max: u64,
    bytes: Mutex<u64>,
}

impl Disk {
    fn new(folder: &Path, bytes_max: u64) -> Self {
        let disk = Self { folder: folder.to_owned(), bytes_max, bytes: Mutex::new(0) };
        let bytes = disk.files().iter().map(|(_, _, bytes)| bytes).sum();
        Self { bytes: Mutex::new(bytes), ..disk }
    }

    fn path(&self, (space, hash): Key) -> PathBuf {
        let name = format!("{:x}", H256(hash));
        self.folder.join(space.into_str()).join(&name[..2]).join(name)
    }

    fn read(&self, key: Key) -> Option<Bytes> {
        let mut bytes = Vec::new();
        let file = fs::File::open(self.path(key)).ok()?;
        file.take(ANSWER_BYTES_MAX as u64).read_to_end(&mut bytes).ok()?;
        Some(bytes.into())
    }

    /// Ignores errors: the node still has the data.
    fn write(&self, key: Key, bytes: &[u8]) {
        let path = self.path(key);
        let Some(folder) = path.parent() else { return };
        let put = || -> std::io::Result<()> {
            fs::create_dir_all(folder)?;
            let file = tempfile::NamedTempFile::new_in(folder)?;
            fs::write(file.path(), bytes)?;
            file.persist(&path)?;
            Ok(())
        };
        if put().is_err() {
            return;
        }
        let mut all = self.bytes.lock();
        *all += bytes.len() as u64;
        if *all > self.bytes_max {
            *all = self.evict_oldest();
        }
    }

    /// Removes the oldest files until a tenth is free; returns the remaining bytes.
    fn evict_oldest(&self) -> u64 {
        let mut files = self.files();
        files.sort_by_key(|file| std::cmp::Reverse(file.1));
        let room = self.bytes_max / 10 * 9;
        let mut left = 0;
        for (path, _, bytes) in files {
            if left + bytes > room && fs::remove_file(path).is_ok() {
                continue;
            }
            left += bytes;
        }
        left
    }

    /// All files, with their modification times and lengths.
    fn files(&self) -> Vec<(PathBuf, SystemTime, u64)> {
        let folders = Space::VARIANTS.iter().map(|space| self.folder.join(space));
        let entries = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
        let files = folders.flat_map(|folder| entries(&folder)).flat_map(|part| entries(&part.path()));
        let reported = files.filter_map(|file| {
            let data = file.metadata().ok().filter(fs::Metadata::is_file)?;
            Some((file.path(), data.modified().ok()?, data.len()))
        });
        reported.collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    #[test]
    fn a_folder_stays_within_its_room() {
        let folder = tempfile::tempdir().unwrap();
        let hash = |number: u8| H256([number; 32]);
        let cache = NodeCache::new(0, Some(folder.path()), 1000);
        for number in 0..30 {
            cache.keep(Space::Headers, &hash(number), Bytes::from(vec![number; 100]));
            // File system timestamps are coarse.
            let path = cache.disk.as_ref().unwrap().path((Space::Headers, [number; 32]));
            let time = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(number.into());
            fs::File::options().append(true).open(path).unwrap().set_modified(time).unwrap();
        }
        let again = NodeCache::new(0, Some(folder.path()), 1000);
        let is_there = |number: u8| again.look_up(Space::Headers, &hash(number), |it| Some(it[0])).is_some();
        assert!(is_there(29), "the newest is kept");
        let count = (0..30).filter(|number| is_there(*number)).count();
        assert!((5..=10).contains(&count), "{count} files");
        assert!(again.look_up(Space::Transactions, &hash(29), |_| Some(())).is_none());
        // Data that does not match its hash is rejected.
        assert!(again.look_up::<()>(Space::Headers, &hash(29), |_| None).is_none());
    }
}
