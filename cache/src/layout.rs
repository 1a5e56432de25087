//! The directory of a cache, and the stores in it. Opens the newest complete store without trusting it: sets a
//! store that cannot be opened aside and creates an empty one.
//!
//! ```text
//! LOCK             held by the process that uses the directory
//! OPENING          exists while a store is being opened: number of the store and of the attempt
//! store-000001/    a sled database; READY inside: it is complete; DOUBT: a sync of it failed
//! quarantine-T-N/  store N, set aside at second T because it was unusable; only the newest is retained
//! ```

use std::{
    fs::{self, File},
    io::{self, Write},
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use crate::{
    config::CacheConfig,
    error::{CacheError, StoreError},
    sled_store::SledStore,
};

/// How many opens of one store may end with the death of the process before the store is set aside. A single
/// death may be an untimely kill; this many in a row point to the store.
const OPEN_TRIES_MAX: u32 = 3;
/// How long closing a store waits for its readers.
const CLOSE_WAIT: Duration = Duration::from_secs(5);
const CLOSE_POLL: Duration = Duration::from_millis(1);

const MARKER_FILE: &str = "OPENING";
const READY_FILE: &str = "READY";
const DOUBT_FILE: &str = "DOUBT";
const STORE_PREFIX: &str = "store-";
const QUARANTINE_PREFIX: &str = "quarantine-";

/// An open store and its number.
pub(crate) struct Opened {
    pub(crate) store: Arc<SledStore>,
    pub(crate) number: u64,
    /// It is empty, and an unusable one was set aside.
    pub(crate) is_replaced: bool,
}

/// The directory of one cache.
pub(crate) struct Layout {
    config: CacheConfig,
    /// The highest number given to a store. Numbers are unique, so they distinguish stores.
    last_number: AtomicU64,
}

impl Layout {
    pub(crate) fn new(config: &CacheConfig) -> Self {
        Self { config: config.clone(), last_number: AtomicU64::new(0) }
    }

    pub(crate) fn store_path(&self, number: u64) -> PathBuf {
        self.config.dir.join(format!("{STORE_PREFIX}{number:06}"))
    }

    /// Creates an empty store, which is ignored by later opens until [`Layout::complete`].
    pub(crate) fn begin(&self) -> Result<(Arc<SledStore>, u64), CacheError> {
        let number = self.last_number.fetch_add(1, Ordering::Relaxed) + 1;
        remove_tree(&self.store_path(number))?;
        let opened = self.open_store(number, 1)?;
        let store = opened.map_err(|source| self.not_open(source))?;
        Ok((store, number))
    }

    pub(crate) fn not_open(&self, source: StoreError) -> CacheError {
        CacheError::Open(self.config.dir.clone(), source)
    }

    /// Marks a store as complete: later opens choose it. Removes a store that cannot be marked.
    pub(crate) fn complete(&self, number: u64) -> Result<(), CacheError> {
        // A half-marked store would replace the one in use at the next open.
        self.mark_ready(number).inspect_err(|_| drop(self.discard(number)))
    }

    fn mark_ready(&self, number: u64) -> Result<(), CacheError> {
        let path = self.store_path(number);
        // sled does not sync the file of its configuration.
        for entry in fs::read_dir(&path).map_err(CacheError::io("list", &path))? {
            let file = entry.map_err(CacheError::io("list", &path))?.path();
            sync(&file)?;
        }
        write_synced(&path.join(READY_FILE), b"")?;
        sync(&path)?;
        sync(&self.config.dir)
    }

    /// Records for the next process that a sync of store `number` failed. The record need not survive a power
    /// loss: reads then return what the disk has.
    pub(crate) fn doubt(&self, number: u64) {
        if let Err(error) = File::create(self.store_path(number).join(DOUBT_FILE)) {
            tracing::error!(%error, store = number, "that a sync failed is not noted for the next start");
        }
    }

    /// Whether a sync of store `number` has failed since it was created.
    pub(crate) fn is_in_doubt(&self, number: u64) -> bool {
        self.store_path(number).join(DOUBT_FILE).exists()
    }

    /// Removes a store permanently.
    pub(crate) fn discard(&self, number: u64) -> Result<(), CacheError> {
        let path = self.store_path(number);
        // Remove the marker first: a half-removed store must not be taken for a complete one.
        remove_file(&path.join(READY_FILE))?;
        remove_tree(&path)
    }

    /// Sets a store aside for analysis; replaces the one set aside before.
    pub(crate) fn quarantine(&self, number: u64) -> Result<(), CacheError> {
        self.drop_quarantine()?;
        let to = self.config.dir.join(format!("{QUARANTINE_PREFIX}{}-{number}", self.config.unix_seconds()));
        let from = self.store_path(number);
        fs::rename(&from, &to).map_err(CacheError::io("move", from))?;
        remove_file(&self.config.dir.join(MARKER_FILE))?;
        sync(&self.config.dir)
    }

    /// Removes quarantined stores; returns whether there were any.
    pub(crate) fn drop_quarantine(&self) -> Result<bool, CacheError> {
        let mut any = false;
        for name in self.names()? {
            if name.starts_with(QUARANTINE_PREFIX) {
                remove_tree(&self.config.dir.join(name))?;
                any = true;
            }
        }
        Ok(any)
    }

    pub(crate) fn disk_bytes(&self) -> u64 {
        tree_bytes(&self.config.dir)
    }

    pub(crate) fn store_disk_bytes(&self, number: u64) -> u64 {
        tree_bytes(&self.store_path(number))
    }

    /// Number of files in sled's `blobs` folder, whose space sled never frees. Must be zero.
    pub(crate) fn blobs(&self, number: u64) -> u64 {
        fs::read_dir(self.store_path(number).join("blobs")).map_or(0, |files| files.count() as u64)
    }

    /// The newest complete store; removes all others.
    pub(crate) fn choose(&self) -> Result<Option<u64>, CacheError> {
        let numbers: Vec<u64> =
            self.names()?.iter().filter_map(|name| name.strip_prefix(STORE_PREFIX)?.parse().ok()).collect();
        self.last_number.fetch_max(numbers.iter().copied().max().unwrap_or(0), Ordering::Relaxed);
        let chosen = numbers.iter().copied().filter(|&n| self.store_path(n).join(READY_FILE).exists()).max();
        for number in numbers.into_iter().filter(|&number| Some(number) != chosen) {
            self.discard(number)?;
        }
        Ok(chosen)
    }

    fn names(&self) -> Result<Vec<String>, CacheError> {
        let dir = &self.config.dir;
        let entries = fs::read_dir(dir).map_err(CacheError::io("list", dir))?;
        let names: io::Result<Vec<_>> =
            entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect();
        names.map_err(CacheError::io("list", dir))
    }

    /// Earlier attempts to open store `number` during which the process died.
    pub(crate) fn tries_before(&self, number: u64) -> u32 {
        let text = fs::read_to_string(self.config.dir.join(MARKER_FILE)).unwrap_or_default();
        let mut words = text.split_whitespace().map(|word| word.parse::<u64>().ok());
        match (words.next().flatten(), words.next().flatten()) {
            (Some(marked), Some(tries)) if marked == number => u32::try_from(tries).unwrap_or(u32::MAX - 1),
            _ => 0,
        }
    }

    /// Opens a store on its own thread, so that a panic or hang of sled does not affect the caller.
    pub(crate) fn open_store(
        &self,
        number: u64,
        tries: u32,
    ) -> Result<Result<Arc<SledStore>, StoreError>, CacheError> {
        let marker = self.config.dir.join(MARKER_FILE);
        write_synced(&marker, format!("{number} {tries}\n").as_bytes())?;
        let (sender, receiver) = mpsc::sync_channel(1);
        let (path, page_cache_bytes) = (self.store_path(number), self.config.page_cache_bytes);
        thread::Builder::new()
            .name("cache-open".to_owned())
            .spawn(move || sender.send(SledStore::open(&path, page_cache_bytes)))
            .map_err(CacheError::io("start a thread to open", self.store_path(number)))?;
        let result = match receiver.recv_timeout(self.config.open_timeout) {
            Ok(result) => result.map(Arc::new),
            Err(mpsc::RecvTimeoutError::Timeout) => Err(StoreError::TimedOut),
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(StoreError::Panicked),
        };
        remove_file(&marker)?;
        Ok(result)
    }

    /// Opens the newest complete store. If its files are damaged, sets it aside and creates an empty one.
    pub(crate) fn open_or_replace(&self) -> Result<Opened, CacheError> {
        let Some(number) = self.choose()? else { return self.make(false) };
        let tries = self.tries_before(number) + 1;
        let failure = if tries > OPEN_TRIES_MAX {
            StoreError::Damaged(format!("{OPEN_TRIES_MAX} opens in a row did not come back"))
        } else {
            match self.open_store(number, tries)? {
                Ok(store) => return Ok(Opened { store, number, is_replaced: false }),
                // A full disk or a missing permission is not damage of the files.
                Err(StoreError::Io(source)) if !is_damage(&source) => {
                    return Err(self.not_open(StoreError::Io(source)));
                }
                Err(failure @ StoreError::Unsynced(_)) => {
                    self.doubt(number);
                    return Err(self.not_open(failure));
                }
                Err(failure) => failure,
            }
        };
        tracing::error!(store = number, error = %failure, "the store cannot be opened; it is set aside and an empty one begins");
        self.quarantine(number)?;
        self.make(true)
    }

    /// Creates and opens an empty store.
    fn make(&self, is_replaced: bool) -> Result<Opened, CacheError> {
        let (store, number) = self.begin()?;
        self.complete(number)?;
        Ok(Opened { store, number, is_replaced })
    }
}

fn write_synced(path: &Path, bytes: &[u8]) -> Result<(), CacheError> {
    let write = || {
        let mut file = File::create(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().map_err(CacheError::io("write", path))
}

fn sync(path: &Path) -> Result<(), CacheError> {
    File::open(path).and_then(|file| file.sync_all()).map_err(CacheError::io("sync", path))
}

fn remove_file(path: &Path) -> Result<(), CacheError> {
    absent_is_fine(fs::remove_file(path)).map_err(CacheError::io("remove", path))
}

fn remove_tree(path: &Path) -> Result<(), CacheError> {
    absent_is_fine(fs::remove_dir_all(path)).map_err(CacheError::io("remove", path))
}

fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Bytes allocated below `path`; unreadable files count as zero.
fn tree_bytes(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = fs::read_dir(path) else { return 0 };
    let bytes_of = |entry: fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => tree_bytes(&entry.path()),
        Ok(metadata) => metadata.blocks() * 512,
        Err(_) => 0,
    };
    entries.filter_map(Result::ok).map(bytes_of).sum()
}

/// Whether an operating-system error indicates damaged files: sled reports short reads and invalid contents
/// this way.
fn is_damage(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof
            | io::ErrorKind::InvalidData
            | io::ErrorKind::InvalidInput
            | io::ErrorKind::NotFound
    )
}

/// Closes a store once its reads have ended. If a read outlasts `CLOSE_WAIT`, the store closes with its last
/// reader.
pub(crate) fn close(store: Arc<SledStore>) {
    let deadline = Instant::now() + CLOSE_WAIT;
    while Arc::strong_count(&store) > 1 && Instant::now() < deadline {
        thread::sleep(CLOSE_POLL);
    }
    // sled flushes on close, which may panic.
    if catch_unwind(AssertUnwindSafe(|| drop(store))).is_err() {
        tracing::error!("the store of the cache panicked as it closed");
    }
}
