//! Bytes of a sealed memory file where they are: mapped, read-only, and not copied.

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

/// Pages that can be read alone, of a file whose content cannot change.
struct Mapped {
    start: *const u8,
    bytes: usize,
}

// SAFETY: nobody writes to the pages, and nothing ties them to a thread.
unsafe impl Send for Mapped {}
// SAFETY: as for Send.
unsafe impl Sync for Mapped {}

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `map` mapped so many bytes of a file that can neither change nor shrink, and they stay
        // mapped.
        unsafe { std::slice::from_raw_parts(self.start, self.bytes) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: `map` mapped exactly these pages, and whoever had a pointer to them had the owner too.
        unsafe { libc::munmap(self.start.cast_mut().cast(), self.bytes) };
    }
}

impl Sealed {
    /// The content, mapped for as long as somebody has it.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn map(&self) -> io::Result<Bytes> {
        Ok(map(std::os::fd::AsFd::as_fd(self), self.len())?.map_or_else(Bytes::new, Bytes::from_owner))
    }
}

/// The content of a sealed file beside a job, mapped for as long as the process lives, and sealed in place
/// where the kernel can.
pub(crate) fn map_for_good(file: &File) -> io::Result<Bytes> {
    let Some(mapped) = map(std::os::fd::AsFd::as_fd(file), file.metadata()?.len())? else {
        return Ok(Bytes::new());
    };
    let start = mapped.start as usize;
    // Before Linux 6.10 there is no sealing; whoever took the process over could write to a copy of its own.
    let _ = seal(start..start + mapped.bytes.next_multiple_of(PAGE_BYTES));
    let mapped: &'static Mapped = Box::leak(Box::new(mapped));
    Ok(Bytes::from_static(mapped.as_ref()))
}

fn map(file: BorrowedFd<'_>, length: u64) -> io::Result<Option<Mapped>> {
    let bytes = usize::try_from(length).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
    if bytes == 0 {
        return Ok(None);
    }
    // Before Linux 6.7 a file that is sealed against writing cannot be mapped shared. Nobody writes: the
    // pages are the file's all the same. SAFETY: without MAP_FIXED a new mapping replaces nothing, wherever
    // it is.
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
