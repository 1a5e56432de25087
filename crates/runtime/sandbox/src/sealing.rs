//! `mseal` (Linux 6.10): pages of code and constants stay as they are, for good. Who takes a process over can
//! then neither take code away from under a signal handler nor write to what the loader resolved.

use std::{
    ffi::c_void,
    io,
    ops::Range,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

use crate::{Layer, LayerStatus, SandboxError};

/// Bytes of a page.
const PAGE_BYTES: usize = 4096;

/// Objects that have been sealed, in the loader's order, in which new ones come last; none is unloaded that
/// was sealed. A child has its zygote's count: sealing all again would take it some 50 microseconds.
static SEALED: AtomicUsize = AtomicUsize::new(0);

/// Whether sealing was found to work in this process, or in the zygote that it was forked from.
static STANDS: AtomicBool = AtomicBool::new(false);

/// What a visit of the loaded objects has found.
#[derive(Default)]
struct Found {
    objects: usize,
    ranges: Vec<Range<usize>>,
}

/// Seals what cannot be written of every object that was loaded since the last time: code, constants, and
/// what the loader made read-only. Gives how many ranges that are.
///
/// # Errors
/// What the kernel says: `ENOSYS` before Linux 6.10.
pub fn seal_loaded() -> io::Result<usize> {
    let mut found = Found::default();
    // SAFETY: the callback gets the pointer to `found`, which outlives the call, and keeps nothing.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut found).cast()) };
    for range in &found.ranges {
        seal(range.clone())?;
    }
    SEALED.store(found.objects, Ordering::Relaxed);
    Ok(found.ranges.len())
}

/// Seals mapped pages: they cannot be unmapped, moved, or given other permissions any more.
///
/// # Errors
/// What the kernel says.
pub fn seal(range: Range<usize>) -> io::Result<()> {
    // SAFETY: the kernel takes numbers, and changes no byte.
    match unsafe { libc::syscall(libc::SYS_mseal, range.start, range.len(), 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Collects the ranges of one object, if it is new.
unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _size: usize, found: *mut c_void) -> i32 {
    // SAFETY: `seal_loaded` passes what it finds, and the loader passes an object's header table that is
    // valid for the call.
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
    // SAFETY: the loader gives the table's address and length.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    for header in headers {
        let start = base.wrapping_add(usize::try_from(header.p_vaddr).unwrap_or(0));
        let end = start.saturating_add(usize::try_from(header.p_memsz).unwrap_or(0));
        let first = start & !(PAGE_BYTES - 1);
        let last = match header.p_type {
            libc::PT_LOAD if header.p_flags & libc::PF_W == 0 => end.next_multiple_of(PAGE_BYTES),
            // The loader protects whole pages only.
            libc::PT_GNU_RELRO => end & !(PAGE_BYTES - 1),
            _ => continue,
        };
        if first < last {
            found.ranges.push(first..last);
        }
    }
    0
}

/// Seals what is loaded, and makes sure that it is.
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

/// Seals what was loaded since [`seal_code`], where that has found that sealing works.
pub(crate) fn seal_the_rest() -> Result<(), SandboxError> {
    match seal_loaded() {
        Err(error) if STANDS.load(Ordering::Relaxed) => {
            Err(SandboxError::step(Layer::SealedCode, "seal the loaded library")(error))
        }
        _ => Ok(()),
    }
}

/// Whether the page of this very function may still be given the permissions that it has.
fn can_change_code() -> bool {
    let page = can_change_code as *const () as usize & !(PAGE_BYTES - 1);
    // SAFETY: the page is this function's; it stays readable and executable.
    let answer = unsafe {
        libc::mprotect(
            std::ptr::with_exposed_provenance_mut(page),
            PAGE_BYTES,
            libc::PROT_READ | libc::PROT_EXEC,
        )
    };
    answer == 0
}
