//! A spare child: forked and warmed up in advance, so that a job without a worker need not wait for that.
//!
//! It only inherits from its zygote: it has seen no job, and enters its sandbox like any other child when one
//! arrives. Its job arrives through a socket of its own, to which the zygote forwards the supervisor's
//! message.

use std::{
    ffi::c_void,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use antares_sandbox::{CONTROL_FD, Fork, LayerStatus, die_with, exit_now, fork, move_to};
use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open};

use crate::{
    child::{Worker, live},
    wire::{self, SPAWN_BYTES_MAX, Spawn},
    zygote_error::ZygoteError,
};

/// Bytes of a page.
const PAGE_BYTES: usize = 4096;

/// The spare child. The zygote's end of its socket is descriptor [`CONTROL_FD`], for which its filter permits
/// sending.
#[derive(Debug)]
pub(crate) struct Spare {
    /// A handle of the process.
    pub(crate) handle: OwnedFd,
}

impl Spare {
    /// Forks a spare child.
    ///
    /// # Safety
    /// The process has one thread and is a zygote; only this module uses descriptor [`CONTROL_FD`].
    pub(crate) unsafe fn make<W: Worker>(
        worker: &mut W,
        layers: &[LayerStatus],
    ) -> Result<Self, ZygoteError> {
        let (ours, theirs) =
            wire::packet_pair().map_err(ZygoteError::io("make a socket for a spare child"))?;
        let zygote = getpid();
        // SAFETY: the caller guarantees a single thread.
        let child = match unsafe { fork() }.map_err(ZygoteError::io("fork a spare child"))? {
            Fork::Child => {
                // Only the zygote may own that end.
                drop(ours);
                // SAFETY: this is the child, which never returns to the zygote's owners of descriptors.
                unsafe { wait(worker, zygote, layers, &theirs) }
            }
            Fork::Parent(child) => child,
        };
        // SAFETY: the caller guarantees the number.
        unsafe { move_to(ours.as_fd(), CONTROL_FD) }.map_err(ZygoteError::io("place a socket"))?;
        let handle =
            pidfd_open(child, PidfdFlags::empty()).map_err(ZygoteError::io("open a child's pidfd"))?;
        Ok(Self { handle })
    }

    /// Forwards a job. If that fails, the child did not receive it.
    pub(crate) fn send(&self, spawn: &Spawn, fds: &[OwnedFd]) -> std::io::Result<()> {
        // SAFETY: the descriptor is open (`make` placed it, and the zygote owns it), and only borrowed for this
        // call.
        let socket = unsafe { BorrowedFd::borrow_raw(CONTROL_FD) };
        wire::send(socket, spawn, &fds.iter().map(AsFd::as_fd).collect::<Vec<_>>())
    }

    /// Closes the zygote's end of the socket.
    pub(crate) fn hang_up(&self) {
        // SAFETY: as in `send`; 1 is /dev/null. If this fails, the next spare child's socket takes the
        // number.
        let _ = unsafe { move_to(BorrowedFd::borrow_raw(1), CONTROL_FD) };
    }
}

/// Runs a spare child: waits for a job, then continues like other children.
///
/// # Safety
/// Those of [`live`].
unsafe fn wait<W: Worker>(worker: &mut W, zygote: Pid, layers: &[LayerStatus], inbox: &OwnedFd) -> ! {
    // SAFETY: the caller guarantees this for the owners of descriptors; 1 is /dev/null. The filter permits
    // receiving only on 0, and this child must not retain the zygote's ends of sockets.
    let is_placed = unsafe {
        move_to(inbox.as_fd(), 0).is_ok() && move_to(BorrowedFd::borrow_raw(1), CONTROL_FD).is_ok()
    };
    if !is_placed || die_with(zygote).is_err() {
        exit_now(1);
    }
    warm_up();
    // SAFETY: just placed.
    let inbox = unsafe { BorrowedFd::borrow_raw(0) };
    match wire::receive::<Spawn, SPAWN_BYTES_MAX>(inbox) {
        // SAFETY: passed on.
        Ok(Some((spawn, fds))) => unsafe { live(worker, zygote, layers, spawn, &fds) },
        _ => exit_now(0),
    }
}

/// Populates the pages that every job needs: after a fork, code pages are not mapped, and data pages are shared
/// with the zygote until they are written.
fn warm_up() {
    // SAFETY: the callback takes no data and stores nothing.
    unsafe { libc::dl_iterate_phdr(Some(populate), std::ptr::null_mut()) };
}

unsafe extern "C" fn populate(info: *mut libc::dl_phdr_info, _size: usize, _: *mut c_void) -> i32 {
    // SAFETY: the loader passes an object's header table that is valid for the call.
    let info = unsafe { &*info };
    let Ok(base) = usize::try_from(info.dlpi_addr) else { return 0 };
    if info.dlpi_phdr.is_null() {
        return 0;
    }
    // SAFETY: the loader provides the table's address and length.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let place = |header: &libc::Elf64_Phdr| {
        let start = base.wrapping_add(usize::try_from(header.p_vaddr).unwrap_or(0));
        start..start.saturating_add(usize::try_from(header.p_memsz).unwrap_or(0))
    };
    let relro = headers.iter().find(|header| header.p_type == libc::PT_GNU_RELRO).map(place);
    for header in headers.iter().filter(|header| header.p_type == libc::PT_LOAD) {
        let mut range = place(header);
        let advice = if header.p_flags & libc::PF_W != 0 {
            // Exclude pages that the loader made read-only.
            range.start =
                relro.as_ref().map_or(range.start, |relro| range.start.max(relro.end & !(PAGE_BYTES - 1)));
            libc::MADV_POPULATE_WRITE
        } else if header.p_flags & libc::PF_X != 0 {
            libc::MADV_POPULATE_READ
        } else {
            continue;
        };
        let (start, end) = (range.start & !(PAGE_BYTES - 1), range.end.next_multiple_of(PAGE_BYTES));
        // SAFETY: this changes no byte and no permission, and may have no effect.
        unsafe {
            libc::madvise(std::ptr::with_exposed_provenance_mut(start), end.saturating_sub(start), advice)
        };
    }
    0
}
