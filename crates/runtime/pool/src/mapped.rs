//! The bytes of a sealed memory file, mapped read-only and without a copy.

use std::{
    fs::File,
    io,
    os::fd::{AsRawFd, BorrowedFd},
    ptr,
};

use antares_sandbox::seal;
use bytes::Bytes;

use crate::Sealed;

/// Bytes of a page.
const PAGE_BYTES: usize = 4096;

/// Read-only pages of a file with immutable content.
struct Mapped {
    start: *const u8,
    bytes: usize,
}

// SAFETY: the pages are never written, and are not bound to a thread.
unsafe impl Send for Mapped {}
// SAFETY: as for Send.
unsafe impl Sync for Mapped {}

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `map` mapped this many bytes of a file that can neither change nor shrink, and they stay
        // mapped.
        unsafe { std::slice::from_raw_parts(self.start, self.bytes) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: `map` mapped exactly these pages, and every user of a pointer to them owned this value.
        unsafe { libc::munmap(self.start.cast_mut().cast(), self.bytes) };
    }
}

impl Sealed {
    /// The content, mapped while the result or a clone is alive.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn map(&self) -> io::Result<Bytes> {
        Ok(map(std::os::fd::AsFd::as_fd(self), self.len())?.map_or_else(Bytes::new, Bytes::from_owner))
    }
}

/// The content of a sealed file of a job, mapped for the lifetime of the process, and sealed against changes if
/// the kernel supports it.
pub(crate) fn map_for_good(file: &File) -> io::Result<Bytes> {
    let Some(mapped) = map(std::os::fd::AsFd::as_fd(file), file.metadata()?.len())? else {
        return Ok(Bytes::new());
    };
    let start = mapped.start as usize;
    // Before Linux 6.10, without sealing, an attacker inside the process could map a writable copy.
    let _ = seal(start..start + mapped.bytes.next_multiple_of(PAGE_BYTES));
    let mapped: &'static Mapped = Box::leak(Box::new(mapped));
    Ok(Bytes::from_static(mapped.as_ref()))
}

fn map(file: BorrowedFd<'_>, length: u64) -> io::Result<Option<Mapped>> {
    let bytes = usize::try_from(length).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
    if bytes == 0 {
        return Ok(None);
    }
    // Before Linux 6.7, a write-sealed file cannot be mapped shared. The pages are never written, so they are
    // the file's anyway. SAFETY: without MAP_FIXED, a new mapping does not replace anything.
    let start = unsafe {
        libc::mmap(ptr::null_mut(), bytes, libc::PROT_READ, libc::MAP_PRIVATE, file.as_raw_fd(), 0)
    };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(Some(Mapped { start: start.cast_const().cast(), bytes }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_bytes_are_the_file_s_and_outlive_its_handle() {
        let sealed = Sealed::new("test", &[7; 5000]).unwrap();
        let bytes = sealed.map().unwrap();
        drop(sealed);
        assert!(bytes == [7; 5000][..]);
        assert!(Sealed::new("empty", b"").unwrap().map().unwrap().is_empty());
    }
}
