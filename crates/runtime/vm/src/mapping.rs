//! An anonymous mapping: address space that starts inaccessible, is opened in parts, and is unmapped on drop.

use std::{
    io,
    mem::{ManuallyDrop, MaybeUninit},
    ops::Range,
    ptr::NonNull,
    sync::atomic::{AtomicBool, Ordering},
};

use crate::limits::PAGE_BYTES;

/// Private address space.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping is plain address space that is not tied to a thread; `Mapping` hands out only raw
// pointers, and their users guarantee exclusive access.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Reserves `bytes` (a multiple of the page size) of inaccessible address space.
    pub(crate) fn reserve(bytes: usize) -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: without MAP_FIXED a new mapping replaces nothing; the kernel chooses the address.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        // The first check, before any page exists.
        may_swap();
        Ok(Self { start, bytes })
    }

    /// Like [`Mapping::reserve`], for `count` mappings at once.
    pub(crate) fn reserve_many(bytes: usize, count: usize) -> io::Result<Vec<Self>> {
        // Each part unmaps itself.
        let whole = ManuallyDrop::new(Self::reserve(bytes.saturating_mul(count))?);
        let part = |index| NonNull::new(whole.at(index * bytes)).map(|start| Self { start, bytes });
        Ok((0..count).filter_map(part).collect())
    }

    /// Makes `part` (byte offsets, page aligned) readable and writable. It reads as zeros.
    pub(crate) fn open(&mut self, part: Range<usize>) -> io::Result<()> {
        self.allow(part, libc::PROT_READ | libc::PROT_WRITE)
    }

    /// Makes `part` (as for [`Mapping::open`]) read-only.
    pub(crate) fn protect(&mut self, part: Range<usize>) -> io::Result<()> {
        self.allow(part, libc::PROT_READ)
    }

    fn allow(&mut self, part: Range<usize>, access: libc::c_int) -> io::Result<()> {
        // SAFETY: `pointer` checks that `part` lies inside this exclusive mapping.
        match unsafe { libc::mprotect(self.pointer(&part).cast(), part.len(), access) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Makes `part` (opened before; byte offsets, page aligned) read as zeros again.
    pub(crate) fn clear(&mut self, part: Range<usize>) {
        let start = self.pointer(&part);
        // SAFETY: `pointer` checked that `part` is inside this private anonymous mapping: pages returned to
        // the kernel read as zeros.
        if unsafe { libc::madvise(start.cast(), part.len(), libc::MADV_DONTNEED) } != 0 {
            // Locked pages cannot be returned to the kernel.
            // SAFETY: as above, and the caller opened `part` for writing.
            unsafe { start.write_bytes(0, part.len()) };
        }
    }

    /// Which pages of `part` (byte offsets, page aligned) are resident. Pages untouched since they were
    /// opened or cleared are not resident, and read as zeros. `None` if the query fails, or if pages may be
    /// in swap: those are not resident, but not zero either.
    pub(crate) fn touched(&self, part: Range<usize>) -> Option<Vec<bool>> {
        let mut pages = vec![0_u8; part.len() / PAGE_BYTES];
        // SAFETY: `pointer` checks that `part` is inside this mapping; the vector has one byte for each of
        // its pages.
        let reported = unsafe { libc::mincore(self.pointer(&part).cast(), part.len(), pages.as_mut_ptr()) };
        (reported == 0 && !may_swap()).then(|| pages.iter().map(|page| page & 1 != 0).collect())
    }

    /// Address of the byte at `offset`.
    pub(crate) fn at(&self, offset: usize) -> *mut u8 {
        self.pointer(&(offset..offset))
    }

    /// Address of the start of `part`.
    fn pointer(&self, part: &Range<usize>) -> *mut u8 {
        assert!(
            part.start <= part.end && part.end <= self.bytes,
            "{part:?} is outside of {} bytes",
            self.bytes
        );
        // SAFETY: the assertion keeps the offset inside the mapping.
        unsafe { self.start.as_ptr().add(part.start) }
    }
}

/// Whether a check found swap space on the machine. Forked children inherit the flag.
static HAD_SWAP: AtomicBool = AtomicBool::new(false);

/// Whether pages may be in swap, or the query fails. Swap that is being disabled no longer counts as swap
/// space while it still contains pages, so a positive result is final.
pub(crate) fn may_swap() -> bool {
    let may = HAD_SWAP.load(Ordering::Relaxed) || has_swap();
    HAD_SWAP.store(may, Ordering::Relaxed);
    may
}

/// Whether the machine has swap space now, or the query fails.
fn has_swap() -> bool {
    let mut info = MaybeUninit::<libc::sysinfo>::zeroed();
    // SAFETY: the kernel fills the structure, which consists of plain numbers.
    let info = unsafe {
        if libc::sysinfo(info.as_mut_ptr()) != 0 {
            return true;
        }
        info.assume_init()
    };
    info.totalswap != 0
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `reserve` mapped exactly these bytes, and the mapping's user holds no pointers past its
        // lifetime.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cleared_bytes_read_as_zeros() {
        let mut mapping = Mapping::reserve(0x3000).unwrap();
        mapping.open(0x1000..0x2000).unwrap();
        let byte = mapping.at(0x1fff);
        // SAFETY: the byte is in the opened part.
        unsafe {
            assert_eq!(byte.read(), 0);
            byte.write(7);
            let reported = |is_touched: bool| (!may_swap()).then(|| vec![is_touched]);
            assert_eq!(mapping.touched(0x1000..0x2000), reported(true));
            mapping.clear(0x1000..0x2000);
            assert_eq!(mapping.touched(0x1000..0x2000), reported(false));
            assert_eq!(byte.read(), 0);
        }
    }

    #[test]
    #[should_panic(expected = "outside")]
    fn no_pointer_beyond_the_end() {
        Mapping::reserve(0x1000).unwrap().at(0x1001);
    }
}
