//! A model of power loss for recorded file operations: keeps what was synced, and a random part of the rest.
//!
//! The rules are those of a file system with a metadata journal (ext4, XFS). Names and lengths are durable in
//! their order, up to the last sync of any file. Bytes are durable only by a sync of their own file.
//! `sync_file_range` makes nothing durable.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::{Path, PathBuf},
};

use rand::{RngExt, rngs::SmallRng};

/// Bytes that a disk writes atomically.
const SECTOR_BYTES: usize = 512;
/// Bytes of the head of a record, as in `disk.c`.
const HEAD_BYTES: usize = 32;

/// One operation, in the order of completion.
#[derive(Debug)]
enum Operation {
    Create {
        path: PathBuf,
        inode: u64,
    },
    Mkdir(PathBuf),
    Remove(PathBuf),
    Rename {
        from: PathBuf,
        to: PathBuf,
    },
    Truncate {
        inode: u64,
        length: usize,
    },
    Write {
        inode: u64,
        at: usize,
        bytes: Vec<u8>,
    },
    /// Everything of `inode` before operation `before` is durable.
    Sync {
        inode: u64,
        before: usize,
    },
}

/// All recorded operations.
pub(crate) struct Trace(Vec<Operation>);

/// How much of the unsynced data survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// All of it survives: a kill of the process.
    Nothing,
    /// Nothing after some moment.
    Behind,
    /// Some writes, in any order.
    Some,
    /// Some sectors of each write.
    Torn,
}

#[derive(Clone, Default)]
struct Files {
    folders: Vec<PathBuf>,
    /// Index of the content under each path.
    names: BTreeMap<PathBuf, usize>,
    contents: HashMap<usize, Vec<u8>>,
}

impl Trace {
    pub(crate) fn read(file: &Path) -> Self {
        let bytes = fs::read(file).expect("a trace");
        let mut rest = &bytes[..];
        let mut operations = Vec::new();
        while !rest.is_empty() {
            let (head, behind) = rest.split_at(HEAD_BYTES);
            let number = |at: usize| u64::from_ne_bytes(head[at..at + 8].try_into().expect("eight"));
            let size = |number: u64| usize::try_from(number).expect("small");
            let (record, path_bytes) = (number(0) & 0xffff_ffff, size(number(0) >> 32));
            let (inode, given, data_bytes) = (number(8), size(number(16)), size(number(24)));
            let (path, behind) = behind.split_at(path_bytes);
            let (data, behind) = behind.split_at(data_bytes);
            let name = |bytes: &[u8]| PathBuf::from(String::from_utf8(bytes.to_vec()).expect("a path"));
            operations.push(match record {
                1 => Operation::Create { path: name(path), inode },
                2 => Operation::Mkdir(name(path)),
                3 | 4 => Operation::Remove(name(path)),
                5 => Operation::Rename { from: name(path), to: name(data) },
                6 => Operation::Truncate { inode, length: given },
                7 => Operation::Write { inode, at: given, bytes: data.to_vec() },
                8 => Operation::Sync { inode, before: given },
                other => panic!("record {other}"),
            });
            rest = behind;
        }
        Self(operations)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Writes below `to` the files below `from` as a power loss before operation `cut` may leave them.
    pub(crate) fn lose(&self, cut: usize, loss: Loss, random: &mut SmallRng, from: &Path, to: &Path) {
        let done = &self.0[..cut];
        let mut safe: HashMap<u64, usize> = HashMap::new();
        let mut named = 0;
        for operation in done {
            if let Operation::Sync { inode, before } = operation {
                safe.insert(*inode, *before);
                named = named.max(*before);
            }
        }
        let names_until = if loss == Loss::Nothing { cut } else { random.random_range(named..=cut) };
        let bytes_until = random.random_range(0..=cut);
        let mut files = Files::default();
        let mut current: HashMap<u64, usize> = HashMap::new();
        for (index, operation) in done.iter().enumerate() {
            match operation {
                Operation::Write { inode, at, bytes } => {
                    let Some(content) = current.get(inode).and_then(|id| files.contents.get_mut(id)) else {
                        continue;
                    };
                    if safe.get(inode).is_some_and(|before| index < *before) {
                        put(content, *at, bytes);
                    } else {
                        match loss {
                            Loss::Nothing => put(content, *at, bytes),
                            Loss::Behind if index < bytes_until => put(content, *at, bytes),
                            Loss::Some if random.random_bool(0.5) => put(content, *at, bytes),
                            Loss::Torn => tear(content, *at, bytes, random),
                            Loss::Behind | Loss::Some => {}
                        }
                    }
                }
                Operation::Sync { .. } => {}
                name if index < names_until => files.change(name, index, &mut current),
                // Writes to a file that does not exist are lost with it.
                Operation::Create { inode, .. } => drop(current.remove(inode)),
                _ => {}
            }
        }
        files.write(from, to);
    }
}

/// Writes `bytes` at `at`; fills a gap with zeros.
fn put(content: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    if content.len() < at + bytes.len() {
        content.resize(at + bytes.len(), 0);
    }
    content[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Writes a random subset of the sectors of `bytes`.
fn tear(content: &mut Vec<u8>, at: usize, bytes: &[u8], random: &mut SmallRng) {
    let mut from = 0;
    while from < bytes.len() {
        let to = (from + SECTOR_BYTES - (at + from) % SECTOR_BYTES).min(bytes.len());
        if random.random_bool(0.5) {
            put(content, at + from, &bytes[from..to]);
        }
        from = to;
    }
}

impl Files {
    fn change(&mut self, operation: &Operation, id: usize, current: &mut HashMap<u64, usize>) {
        match operation {
            Operation::Create { path, inode } => {
                self.names.insert(path.clone(), id);
                self.contents.insert(id, Vec::new());
                current.insert(*inode, id);
            }
            Operation::Mkdir(path) => self.folders.push(path.clone()),
            Operation::Remove(path) => {
                self.names.remove(path);
                self.folders.retain(|folder| folder != path);
            }
            Operation::Rename { from, to } => {
                let moved = |path: &Path| match path.strip_prefix(from) {
                    Ok(rest) if rest.as_os_str().is_empty() => to.clone(),
                    Ok(rest) => to.join(rest),
                    Err(_) => path.to_owned(),
                };
                self.names.remove(to);
                let names = std::mem::take(&mut self.names);
                self.names = names.into_iter().map(|(path, id)| (moved(&path), id)).collect();
                self.folders.iter_mut().for_each(|path| *path = moved(path));
            }
            Operation::Truncate { inode, length } => {
                if let Some(content) = current.get(inode).and_then(|id| self.contents.get_mut(id)) {
                    content.resize(*length, 0);
                }
            }
            Operation::Write { .. } | Operation::Sync { .. } => {}
        }
    }

    fn write(&self, from: &Path, to: &Path) {
        let place = |path: &Path| Some(to.join(path.strip_prefix(from).ok()?));
        for folder in self.folders.iter().filter_map(|folder| place(folder)) {
            fs::create_dir_all(folder).expect("made");
        }
        for (path, id) in &self.names {
            if let Some(path) = place(path) {
                fs::create_dir_all(path.parent().expect("below")).expect("made");
                fs::write(path, &self.contents[id]).expect("written");
            }
        }
    }
}
