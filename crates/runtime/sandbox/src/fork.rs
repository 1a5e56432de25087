//! Processes and descriptors, raw: fork, exit without clean-up, descriptors at fixed numbers.

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd, RawFd},
};

use rustix::process::Pid;

/// Descriptor numbers that are looked at after closing, from 0 on.
const CHECKED_FDS: u32 = 256;

/// Which side of a fork this is.
#[derive(Clone, Copy, Debug)]
pub enum Fork {
    /// The parent, with the child's process id.
    Parent(Pid),
    /// The child.
    Child,
}

/// Forks the calling process, which must have one thread: a child of a process with several may do nothing
/// but call async-signal-safe functions, for any other thread may hold any lock.
///
/// # Safety
/// The process has one thread. (A zygote's [`crate::Confinement::lock_in`] checks it and its filter kills the making
/// of threads.)
///
/// # Errors
/// What the kernel says, such as `EAGAIN`.
pub unsafe fn fork() -> io::Result<Fork> {
    // SAFETY: fork has no precondition on memory; the caller vouches for the single thread.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        number => Ok(Pid::from_raw(number).map_or(Fork::Child, Fork::Parent)),
    }
}

/// Ends the process at once: no destructors, no exit handlers, no flush.
pub fn exit_now(status: i32) -> ! {
    // SAFETY: _exit has no precondition.
    unsafe { libc::_exit(status) }
}

/// Makes `fd` known under `number` as well, closing what had that number, not inherited by programs executed.
///
/// # Safety
/// Nothing in this process owns descriptor `number`, or its owner never uses or closes it again.
///
/// # Errors
/// What the kernel says.
pub unsafe fn move_to(fd: BorrowedFd<'_>, number: RawFd) -> io::Result<()> {
    if fd.as_raw_fd() == number {
        return Ok(());
    }
    // SAFETY: dup3 touches no memory; the caller vouches for the owner of `number`.
    match unsafe { libc::dup3(fd.as_raw_fd(), number, libc::O_CLOEXEC) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Closes all descriptors that are not in `kept`.
///
/// # Safety
/// No owner of a descriptor that is closed here uses or closes it again.
///
/// # Errors
/// What the kernel says (`ENOSYS` before Linux 5.9), or closing had no effect.
pub unsafe fn close_others(kept: &[RawFd]) -> io::Result<()> {
    let mut kept: Vec<u32> = kept.iter().filter_map(|fd| u32::try_from(*fd).ok()).collect();
    kept.sort_unstable();
    let (mut first, mut gaps) = (0, Vec::new());
    for fd in kept.into_iter().chain([u32::MAX]) {
        if first < fd {
            let last = if fd == u32::MAX { fd } else { fd - 1 };
            // SAFETY: close_range touches no memory; the caller vouches for the owners of what is closed.
            if unsafe { libc::close_range(first, last, 0) } == -1 {
                return Err(io::Error::last_os_error());
            }
            gaps.push(first..=last);
        }
        first = fd.saturating_add(1);
    }
    if is_open(&gaps)? { Err(io::Error::other("closing had no effect")) } else { Ok(()) }
}

/// Whether a descriptor in `gaps` is open; of the lowest ones, which the kernel gives first.
fn is_open(gaps: &[std::ops::RangeInclusive<u32>]) -> io::Result<bool> {
    let numbers = gaps.iter().cloned().flatten().take_while(|number| *number < CHECKED_FDS);
    let look = |number: u32| libc::pollfd { fd: number.cast_signed(), events: 0, revents: 0 };
    let mut polled: Vec<_> = numbers.map(look).collect();
    // SAFETY: the vector has as many entries as the call is told.
    if unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, 0) } == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(polled.iter().any(|polled| polled.revents != libc::POLLNVAL))
}
