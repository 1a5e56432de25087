//! Fault injection for a disk, under one folder: builds `disk.c` and controls it.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

/// Kinds of operations; a bit mask.
pub(crate) const WRITES: u64 = 1;
pub(crate) const SYNCS: u64 = 2;
/// Files and folders created, truncated or renamed.
pub(crate) const NAMES: u64 = 4;
pub(crate) const READS: u64 = 8;
/// Existing files and folders opened.
pub(crate) const OPENS: u64 = 16;
/// `sync_file_range`, which sled uses as a sync.
pub(crate) const RANGES: u64 = 32;

/// Error numbers of the operating system.
pub(crate) const EIO: u64 = 5;
pub(crate) const EACCES: u64 = 13;
pub(crate) const EMFILE: u64 = 24;
pub(crate) const ENOSPC: u64 = 28;
pub(crate) const EROFS: u64 = 30;
pub(crate) const EDQUOT: u64 = 122;

/// Number of faults that never ends.
pub(crate) const FOR_GOOD: u64 = u64::MAX;

/// Word offsets in the plan, as in `disk.c`.
const FIRST: u64 = 1;
const SEEN: u64 = 5;
const FAILED: u64 = 6;
const WORDS: usize = 7;

/// The compiled interposer and its plan.
pub(crate) struct Disk {
    /// `None` in a process that runs under the interposer.
    folder: Option<TempDir>,
    plan: File,
}

impl Disk {
    /// Builds the interposer, without faults.
    pub(crate) fn new() -> Self {
        let folder = TempDir::new().expect("a folder");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../cache/tests/store/disk.c");
        let library = folder.path().join("disk.so");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).arg("-ldl");
        let built = compiler.status().expect("a C compiler");
        assert!(built.success(), "{source} does not compile");
        let path = folder.path().join("plan");
        fs::write(&path, [0; 8 * WORDS]).expect("written");
        Self { folder: Some(folder), plan: open(&path) }
    }

    /// The interposer of this process.
    pub(crate) fn own() -> Self {
        let path = std::env::var_os("DISK_PLAN").expect("we are under it");
        Self { folder: None, plan: open(Path::new(&path)) }
    }

    /// Environment of a program that runs under the interposer, for the files below `folder`.
    pub(crate) fn environment(&self, folder: &Path) -> [(&'static str, PathBuf); 3] {
        let own = self.folder.as_ref().expect("built here").path();
        [
            ("LD_PRELOAD", own.join("disk.so")),
            ("DISK_PLAN", own.join("plan")),
            ("DISK_BELOW", folder.canonicalize().expect("it is there")),
        ]
    }

    /// Fails `count` operations of `kinds` with `errno`, starting with operation `first`. Restarts the count.
    pub(crate) fn fail(&self, kinds: u64, first: u64, count: u64, errno: u64) {
        self.tell(kinds, [first, count, errno, 0]);
    }

    /// Delays each operation of `kinds`.
    pub(crate) fn delay(&self, kinds: u64, microseconds: u64) {
        self.tell(kinds, [0, 0, 0, microseconds]);
    }

    /// Removes faults and counts operations of `kinds`.
    pub(crate) fn behave(&self, kinds: u64) {
        self.tell(kinds, [0; 4]);
    }

    fn tell(&self, kinds: u64, [first, count, errno, delay]: [u64; 4]) {
        self.write(FIRST, &[0]);
        self.write(0, &[kinds, 0, count, errno, delay, 0, 0]);
        self.write(FIRST, &[first]);
    }

    /// Number of operations of the current kinds.
    pub(crate) fn seen(&self) -> u64 {
        self.read(SEEN)
    }

    pub(crate) fn failed(&self) -> u64 {
        self.read(FAILED)
    }

    fn write(&self, first: u64, words: &[u64]) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        self.plan.write_all_at(&bytes, first * 8).expect("written");
    }

    fn read(&self, word: u64) -> u64 {
        let mut bytes = [0; 8];
        self.plan.read_exact_at(&mut bytes, word * 8).expect("read");
        u64::from_ne_bytes(bytes)
    }
}

fn open(path: &Path) -> File {
    File::options().read(true).write(true).open(path).expect("a plan")
}
