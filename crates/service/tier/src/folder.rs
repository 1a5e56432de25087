//! A folder as an object store, on threads of its own: its files may be anybody's, and its file system may
//! hang.
//!
//! Each name is opened below its folder's descriptor and no link is followed; what is no regular file is no
//! object.

use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    os::fd::{AsFd as _, OwnedFd},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use rustix::{
    fs::{
        AtFlags, CWD, Dir, FileType, Mode, OFlags, fchmod, fstat, mkdirat, openat, renameat, statat, unlinkat,
    },
    io::Errno,
};

use crate::{
    Space,
    failure::{Failure, FailureKind},
    found::{Found, LAYOUT, ListedObject, hex, key_of},
    object::HEAD_BYTES,
    threads::Threads,
};

/// Reads and look-ups at once, those that hang among them.
const READS_MAX: usize = 64;

/// Writes and removals at once, those that hang among them: each holds an entry.
const WRITES_MAX: usize = 4;

/// Bytes that are read at once: what a read that hangs holds.
const CHUNK_BYTES: u64 = 1 << 20;

/// Whoever is of the folder's group may share it; nobody else reads what tenants have uploaded.
const FOLDER_MODE: Mode = Mode::from_raw_mode(0o770);
const FILE_MODE: Mode = Mode::from_raw_mode(0o660);

/// The folder.
#[derive(Clone, Debug)]
pub(crate) struct Folder(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    root: PathBuf,
    reads: Threads,
    writes: Threads,
    number: AtomicU64,
}

/// A place in the folder.
#[derive(Clone, Copy, Debug)]
struct Name {
    space: Space,
    key: [u8; 32],
}

impl Name {
    fn file(self) -> String {
        hex(&self.key)
    }

    fn shard(self) -> String {
        hex(&self.key[..1])
    }
}

const FOLDER_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl Inner {
    /// The folder of `space`, or of one of its parts. Opened anew each time: what is mounted there may
    /// change.
    fn folder(&self, space: Space, shard: Option<&str>) -> io::Result<OwnedFd> {
        let root = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut folder = openat(CWD, &self.root, root, Mode::empty())?;
        for name in [Some(LAYOUT), Some(space.name()), shard].into_iter().flatten() {
            // What is not there below the root is an entry that is not there.
            folder = openat(&folder, name, FOLDER_FLAGS, Mode::empty()).map_err(|error| match error {
                Errno::NOENT => io::Error::from(Errno::NXIO),
                error => error.into(),
            })?;
        }
        Ok(folder)
    }

    fn folder_made(&self, name: Name) -> io::Result<OwnedFd> {
        let root = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut folder = openat(CWD, &self.root, root, Mode::empty())?;
        for name in [LAYOUT, name.space.name(), &name.shard()] {
            let is_new = match mkdirat(&folder, name, FOLDER_MODE) {
                Ok(()) => true,
                Err(Errno::EXIST) => false,
                Err(error) => return Err(error.into()),
            };
            folder = openat(&folder, name, FOLDER_FLAGS, Mode::empty())?;
            if is_new {
                // Whatever the umask is.
                fchmod(&folder, FOLDER_MODE)?;
            }
        }
        Ok(folder)
    }

    /// The file, its length, and its first bytes. None if there is no such file, an error in it if it is not
    /// a regular one.
    fn open(&self, name: Name) -> io::Result<Option<Opened>> {
        let folder = match self.folder(name.space, Some(&name.shard())) {
            Ok(folder) => folder,
            Err(error) => return is_absent(&error).then_some(None).ok_or(error),
        };
        // It does not wait for who writes to a FIFO, and takes no terminal.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = match openat(&folder, name.file(), flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP | Errno::NXIO | Errno::OPNOTSUPP) => return Ok(Some(Opened::Irregular)),
            Err(error) => return Err(error.into()),
        };
        let found = fstat(&file)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Ok(Some(Opened::Irregular));
        }
        let length = u64::try_from(found.st_size).unwrap_or(0);
        let mut rest = Rest { file: file.into(), left: length };
        let first = rest.chunk()?;
        Ok(Some(Opened::File { length, first, rest }))
    }

    fn write(&self, name: Name, object: &[u8]) -> io::Result<()> {
        let folder = self.folder_made(name)?;
        let number = self.number.fetch_add(1, Relaxed);
        let random: [u8; 8] = random()?;
        // Nobody reads it under this name.
        let new = format!(".{}.{}.{number}.new", name.file(), hex(&random));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(openat(&folder, &new, flags, FILE_MODE)?);
        let written = file.write_all(object).and_then(|()| {
            fchmod(&file, FILE_MODE)?;
            Ok(renameat(&folder, &new, &folder, name.file())?)
        });
        if written.is_err() {
            // The error that is told is the first one.
            let _ = unlinkat(&folder, &new, AtFlags::empty());
        }
        written
    }

    fn listed(&self, space: Space, shard: &str) -> io::Result<Vec<ListedObject>> {
        let folder = match self.folder(space, Some(shard)) {
            Ok(folder) => folder,
            Err(error) => return is_absent(&error).then(Vec::new).ok_or(error),
        };
        let mut found = Vec::new();
        for entry in Dir::read_from(&folder)? {
            let entry = entry?;
            let Some(key) = entry.file_name().to_str().ok().and_then(key_of) else { continue };
            let stat = match statat(folder.as_fd(), entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                // It was removed meanwhile.
                Err(Errno::NOENT) => continue,
                Err(error) => return Err(error.into()),
            };
            if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
                let bytes = u64::try_from(stat.st_size).unwrap_or(0).saturating_sub(HEAD_BYTES as u64);
                found.push(ListedObject { space, key, bytes, written: stat.st_mtime });
            }
        }
        Ok(found)
    }
}

fn random() -> io::Result<[u8; 8]> {
    let mut bytes = [0; 8];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Whether a folder below the root is not there.
fn is_absent(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::NXIO.raw_os_error())
}

enum Opened {
    Irregular,
    File { length: u64, first: Bytes, rest: Rest },
}

/// What is still to be read of a file.
struct Rest {
    file: File,
    left: u64,
}

impl Rest {
    fn chunk(&mut self) -> io::Result<Bytes> {
        let length = usize::try_from(self.left.min(CHUNK_BYTES)).unwrap_or(0);
        let mut bytes = vec![0; length];
        self.file.read_exact(&mut bytes)?;
        self.left -= length as u64;
        Ok(bytes.into())
    }
}

/// What was done, or what a thread or the system says.
fn done<T>(result: io::Result<io::Result<T>>) -> Result<T, Failure> {
    match result {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(Failure::of_io(&error)),
        Err(error) => Err(Failure::new(FailureKind::Other, &format!("no thread: {error}"))),
    }
}

impl Folder {
    /// The folder `root`, which is there.
    pub(crate) fn new(root: PathBuf) -> Self {
        let (reads, writes) = (Threads::new(READS_MAX), Threads::new(WRITES_MAX));
        Self(Arc::new(Inner { root, reads, writes, number: AtomicU64::new(0) }))
    }

    pub(crate) async fn get(&self, space: Space, key: [u8; 32]) -> Result<Option<Found>, Failure> {
        let (inner, name) = (self.0.clone(), Name { space, key });
        let Some(opened) = done(self.0.reads.run(move || inner.open(name)).await)? else { return Ok(None) };
        let Opened::File { length, first, rest } = opened else { return Ok(Some(Found::Irregular)) };
        let more = stream::try_unfold((self.0.clone(), rest), |(inner, mut rest)| async move {
            if rest.left == 0 {
                return Ok(None);
            }
            let read = inner.reads.run(move || rest.chunk().map(|chunk| (chunk, rest))).await;
            let (chunk, rest) = done(read)?;
            Ok(Some((chunk, (inner, rest))))
        });
        let chunks = stream::once(async { Ok(first) }).chain(more).boxed();
        Ok(Some(Found::Object { length, chunks }))
    }

    pub(crate) async fn put(&self, space: Space, key: [u8; 32], object: Bytes) -> Result<(), Failure> {
        let inner = self.0.clone();
        done(self.0.writes.run(move || inner.write(Name { space, key }, &object)).await)
    }

    /// Whether there is something under that name.
    pub(crate) async fn has(&self, space: Space, key: [u8; 32]) -> Result<bool, Failure> {
        let (inner, name) = (self.0.clone(), Name { space, key });
        let look = move || match inner.folder(name.space, Some(&name.shard())) {
            Ok(folder) => match statat(&folder, name.file(), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(found) => Ok(FileType::from_raw_mode(found.st_mode) == FileType::RegularFile),
                Err(Errno::NOENT) => Ok(false),
                Err(error) => Err(error.into()),
            },
            Err(error) => is_absent(&error).then_some(false).ok_or(error),
        };
        done(self.0.reads.run(look).await)
    }

    pub(crate) async fn remove(&self, space: Space, key: [u8; 32]) -> Result<(), Failure> {
        let (inner, name) = (self.0.clone(), Name { space, key });
        let remove = move || match inner.folder(name.space, Some(&name.shard())) {
            Ok(folder) => match unlinkat(&folder, name.file(), AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => Ok(()),
                Err(error) => Err(error.into()),
            },
            Err(error) => is_absent(&error).then_some(()).ok_or(error),
        };
        done(self.0.writes.run(remove).await)
    }

    /// Calls `each` for its objects until it says no.
    pub(crate) async fn list(
        &self,
        space: Space,
        each: &mut (dyn FnMut(ListedObject) -> bool + Send),
    ) -> Result<(), Failure> {
        for shard in 0..=u8::MAX {
            let inner = self.0.clone();
            let read = self.0.reads.run(move || inner.listed(space, &hex(&[shard])));
            if !done(read.await)?.into_iter().all(&mut *each) {
                break;
            }
        }
        Ok(())
    }
}
