//! Sealed memory files: immutable bytes, and their digest.

use std::{
    fs::File,
    io::{self, Write},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::FileExt,
    },
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use antares_abi::Sha256Digest;
use rustix::{
    fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, memfd_create},
    io::Errno,
};
use sha2::{Digest, Sha256};

/// Bytes read at once for hashing.
const READ_BYTES: usize = 64 << 10;
/// Maximum wait for pages that are held elsewhere, after each `EBUSY`.
const SEAL_WAIT_MAX: Duration = Duration::from_secs(2);

static COPIED_BYTES: AtomicU64 = AtomicU64::new(0);

/// Counts bytes that were copied to or from a worker.
pub(crate) fn record_copied(bytes: usize) {
    COPIED_BYTES.fetch_add(bytes as u64, Ordering::Relaxed);
}

/// Bytes that this process has copied to and from workers so far: to memory files, and to and from shared
/// memory.
#[must_use]
pub fn copied_bytes() -> u64 {
    COPIED_BYTES.load(Ordering::Relaxed)
}

static DIGESTED_BYTES: AtomicU64 = AtomicU64::new(0);

/// Digest of `bytes`, counted.
#[must_use]
pub fn digest(bytes: &[u8]) -> Sha256Digest {
    DIGESTED_BYTES.fetch_add(bytes.len() as u64, Ordering::Relaxed);
    Sha256Digest::of(bytes)
}

/// Bytes that this process has hashed for digests so far, by [`digest`] and of memory files.
#[must_use]
pub fn digested_bytes() -> u64 {
    DIGESTED_BYTES.load(Ordering::Relaxed)
}

/// A memory file with immutable content and length, even for owners of a descriptor.
#[derive(Debug)]
pub struct Sealed {
    file: File,
    digest: Sha256Digest,
    length: u64,
}

impl Sealed {
    /// Seals a copy of `bytes`; `name` is shown in `/proc/PID/maps`.
    ///
    /// # Errors
    /// The kernel's error, such as `ENOMEM` or `EMFILE`.
    pub fn new(name: &str, bytes: &[u8]) -> io::Result<Self> {
        let mut file = File::from(create(name)?);
        file.write_all(bytes)?;
        record_copied(bytes.len());
        Self::seal(file)
    }

    /// Like [`Sealed::new`], with a known digest. No other process has the file before it is sealed, so its
    /// content need not be hashed again.
    ///
    /// # Errors
    /// Those of [`Sealed::new`].
    pub fn of_known(name: &str, bytes: &[u8], digest: Sha256Digest) -> io::Result<Self> {
        let mut file = File::from(create(name)?);
        file.write_all(bytes)?;
        record_copied(bytes.len());
        let length = Self::sealed_length(&file)?;
        Ok(Self { file, digest, length })
    }

    /// Seals `file`, a memory file from [`create`]. Fails with `EBUSY` if it has a writable mapping for longer
    /// than [`SEAL_WAIT_MAX`].
    pub(crate) fn seal(file: File) -> io::Result<Self> {
        let length = Self::sealed_length(&file)?;
        // Hash after sealing, so that the bytes cannot change afterwards.
        let digest = digest_of(&file, length)?;
        Ok(Self { file, digest, length })
    }

    /// Seals `file`, and returns its final length.
    fn sealed_length(file: &File) -> io::Result<u64> {
        let wanted = SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL;
        add_seals(file, wanted)?;
        if !fcntl_get_seals(file)?.contains(wanted) {
            return Err(Errno::PERM.into());
        }
        Ok(file.metadata()?.len())
    }

    /// Digest of the content, computed after sealing unless it was known.
    #[must_use]
    pub fn digest(&self) -> Sha256Digest {
        self.digest
    }

    /// Bytes of content.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.length
    }

    /// Whether there is no content.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// A copy of the content.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn read(&self) -> io::Result<Vec<u8>> {
        read_all(&self.file, self.length)
    }

    /// Appends the content to `bytes`.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn append_to(&self, bytes: &mut Vec<u8>) -> io::Result<()> {
        append(&self.file, self.length, bytes)
    }

    /// Another handle of the same file.
    ///
    /// # Errors
    /// The kernel's error, such as `EMFILE`.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { file: self.file.try_clone()?, digest: self.digest, length: self.length })
    }
}

impl AsFd for Sealed {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Creates an empty memory file that can be sealed, and not executed by `execve`.
pub(crate) fn create(name: &str) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    match memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        // Kernels before 6.3 do not support the flag.
        Err(Errno::INVAL) => Ok(memfd_create(name, flags)?),
        other => Ok(other?),
    }
}

/// The kernel may hold pages for a moment (it migrates one, or still frees a dead child's memory), and then
/// also returns `EBUSY`.
fn add_seals(file: &File, seals: SealFlags) -> io::Result<()> {
    let until = Instant::now() + SEAL_WAIT_MAX;
    loop {
        match fcntl_add_seals(file, seals) {
            Err(Errno::BUSY) if Instant::now() < until => thread::sleep(Duration::from_millis(1)),
            sealed => return Ok(sealed?),
        }
    }
}

/// The first `length` bytes of `file`.
pub(crate) fn read_all(file: &File, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    append(file, length, &mut bytes)?;
    Ok(bytes)
}

fn append(file: &File, length: u64, bytes: &mut Vec<u8>) -> io::Result<()> {
    let length = usize::try_from(length).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
    let start = bytes.len();
    bytes.resize(start + length, 0);
    file.read_exact_at(&mut bytes[start..], 0)
}

fn digest_of(file: &File, length: u64) -> io::Result<Sha256Digest> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; READ_BYTES];
    let mut offset = 0;
    while offset < length {
        let count = file.read_at(&mut buffer, offset)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        hash.update(&buffer[..count]);
        DIGESTED_BYTES.fetch_add(count as u64, Ordering::Relaxed);
        offset += count as u64;
    }
    Ok(Sha256Digest(hash.finalize().into()))
}

#[cfg(test)]
mod tests {
    use std::{os::fd::AsRawFd, ptr, sync::mpsc};

    use super::*;

    #[test]
    fn a_known_digest_is_not_computed_again() {
        let digest = Sha256Digest::of(b"bytes");
        let sealed = Sealed::of_known("test", b"bytes", digest).unwrap();
        assert_eq!((sealed.digest(), sealed.len()), (digest, 5));
        assert_eq!(sealed.read().unwrap(), b"bytes");
        assert!(sealed.file.write_at(b"B", 0).is_err());
        assert!(sealed.file.set_len(6).is_err());
    }

    #[test]
    fn sealed_bytes_cannot_change() {
        let sealed = Sealed::new("test", b"bytes").unwrap();
        assert_eq!(sealed.digest(), Sha256Digest::of(b"bytes"));
        assert_eq!((sealed.len(), sealed.is_empty()), (5, false));
        assert!(sealed.file.write_at(b"B", 0).is_err());
        assert!(sealed.file.set_len(4).is_err());
        assert!(sealed.file.set_len(6).is_err());
        assert_eq!(sealed.try_clone().unwrap().read().unwrap(), b"bytes");
        let mut joined = b"some ".to_vec();
        sealed.append_to(&mut joined).unwrap();
        assert_eq!(joined, b"some bytes");
    }

    /// Maps one page of `file` as writable until `end` receives a message.
    fn hold(file: &File, begun: &mpsc::Sender<()>, end: &mpsc::Receiver<()>) {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel chooses the address, and there are no references to it.
        let page =
            unsafe { libc::mmap(ptr::null_mut(), 4096, access, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        assert_ne!(page, libc::MAP_FAILED);
        begun.send(()).unwrap();
        let _ = end.recv();
        // SAFETY: mapped above.
        assert_eq!(unsafe { libc::munmap(page, 4096) }, 0);
    }

    #[test]
    fn who_still_looks_at_it_is_waited_for_but_not_for_ever() {
        let mut file = File::from(create("held").unwrap());
        file.write_all(b"bytes").unwrap();
        let (begun, has_begun) = mpsc::channel();
        let (end, ends) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| {
                let ends = ends;
                hold(&file, &begun, &ends);
            });
            has_begun.recv().unwrap();
            let error = Sealed::seal(file.try_clone().unwrap()).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(Errno::BUSY.raw_os_error()));
            scope.spawn(|| {
                thread::sleep(SEAL_WAIT_MAX / 20);
                drop(end);
            });
            assert_eq!(Sealed::seal(file.try_clone().unwrap()).unwrap().len(), 5);
        });
    }

    #[test]
    fn nothing_can_be_sealed() {
        let sealed = Sealed::new("empty", b"").unwrap();
        assert!(sealed.is_empty());
        assert_eq!(sealed.digest(), Sha256Digest::of(b""));
    }
}
