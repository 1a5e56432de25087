//! `mseal` (Linux 6.10): seals pages of code and constants for good. Then an attacker in the process can
//! neither unmap the code of a signal handler nor write to symbols that the loader resolved.

use std::{
    ffi::c_void,
    io,
    ops::Range,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

use crate::{Layer, LayerStatus, SandboxError};

const PAGE_BYTES: usize = 4096;

/// Number of sealed objects, in loader order, which appends new ones; sealed objects are never unloaded. A
/// child inherits its zygote's count, because sealing all objects again would take about 50 microseconds.
static SEALED: AtomicUsize = AtomicUsize::new(0);

/// Whether sealing works in this process, or in the zygote that it was forked from.
static STANDS: AtomicBool = AtomicBool::new(false);

/// Result of a visit of the loaded objects.
#[derive(Default)]
struct Found {
    objects: usize,
    ranges: Vec<Range<usize>>,
}

/// Seals the read-only parts of every object that was loaded since the last call: code, constants, and RELRO
/// data. Returns the number of sealed ranges.
///
/// # Errors
/// The kernel's error: `ENOSYS` before Linux 6.10.
pub fn seal_loaded() -> io::Result<usize> {
    let mut found = Found::default();
    // SAFETY: the callback gets the pointer to `found`, which outlives the call, and does not retain it.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut found).cast()) };
    for range in &found.ranges {
        seal(range.clone())?;
    }
    SEALED.store(found.objects, Ordering::Relaxed);
    Ok(found.ranges.len())
}

/// Seals mapped pages: from now on they cannot be unmapped, moved, or given other permissions.
///
/// # Errors
/// The kernel's error.
pub fn seal(range: Range<usize>) -> io::Result<()> {
    // SAFETY: the kernel takes numbers, and changes no byte.
    match unsafe { libc::syscall(libc::SYS_mseal, range.start, range.len(), 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Collects the ranges of one object, if it is new.
unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _size: usize, found: *mut c_void) -> i32 {
    // SAFETY: `seal_loaded` passes its `Found`, and the loader passes a header table that is valid for the
    // call.
    let (info, found) = unsafe { (&*info, &mut *found.cast::<Found>()) };
    found.objects += 1;
    if found.objects <= SEALED.load(Ordering::Relaxed) {
        return 0;
    }
    // SAFETY: getauxval has no precondition.
    let vdso = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) };
    let Ok(base) = usize::try_from(info.dlpi_addr) else { return 0 };
    if info.dlpi_phdr.is_null() || info.dlpi_addr == vdso {
        // The kernel's own object.
        return 0;
    }
    // SAFETY: the loader provides the table's address and length.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    for header in headers {
        let start = base.wrapping_add(usize::try_from(header.p_vaddr).unwrap_or(0));
        let end = start.saturating_add(usize::try_from(header.p_memsz).unwrap_or(0));
        let first = start & !(PAGE_BYTES - 1);
        let last = match header.p_type {
            libc::PT_LOAD if header.p_flags & libc::PF_W == 0 => end.next_multiple_of(PAGE_BYTES),
            // The loader protects only whole pages.
            libc::PT_GNU_RELRO => end & !(PAGE_BYTES - 1),
            _ => continue,
        };
        if first < last {
            found.ranges.push(first..last);
        }
    }
    0
}

/// Seals the loaded objects, and verifies the result.
pub(crate) fn seal_code() -> LayerStatus {
    let (active, detail) = match seal_loaded() {
        Err(error) => (false, error.to_string()),
        Ok(_) if can_change_code() => (false, "sealing had no effect".to_owned()),
        Ok(ranges) => {
            STANDS.store(true, Ordering::Relaxed);
            (true, format!("{ranges} ranges; system calls outside of the policy are named"))
        }
    };
    LayerStatus { layer: Layer::SealedCode, active, detail }
}

/// Seals objects that were loaded since [`seal_code`], if that found sealing to work.
pub(crate) fn seal_the_rest() -> Result<(), SandboxError> {
    match seal_loaded() {
        Err(error) if STANDS.load(Ordering::Relaxed) => {
            Err(SandboxError::step(Layer::SealedCode, "seal the loaded library")(error))
        }
        _ => Ok(()),
    }
}

/// Whether the permissions of this function's own page can still be set.
fn can_change_code() -> bool {
    let page = can_change_code as *const () as usize & !(PAGE_BYTES - 1);
    // SAFETY: the page belongs to this function; it stays readable and executable.
    let answer = unsafe {
        libc::mprotect(
            std::ptr::with_exposed_provenance_mut(page),
            PAGE_BYTES,
            libc::PROT_READ | libc::PROT_EXEC,
        )
    };
    answer == 0
}
