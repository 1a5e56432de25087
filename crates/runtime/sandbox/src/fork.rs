//! Raw process and descriptor functions: fork, exit without clean-up, descriptors at fixed numbers.

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd, RawFd},
};

use rustix::process::Pid;

/// Number of descriptors that are checked after closing, from 0.
const CHECKED_FDS: u32 = 256;

/// Which side of a fork this is.
#[derive(Clone, Copy, Debug)]
pub enum Fork {
    /// The parent, with the child's process id.
    Parent(Pid),
    /// The child.
    Child,
}

/// Forks the calling process, which must have one thread. After a fork with several threads, the child may
/// only call async-signal-safe functions, because another thread may hold any lock.
///
/// # Safety
/// The process has one thread. A zygote's [`crate::Confinement::lock_in`] checks this, and its filter kills
/// the process if it creates a thread.
///
/// # Errors
/// The kernel's error, for example `EAGAIN`.
pub unsafe fn fork() -> io::Result<Fork> {
    // SAFETY: fork has no memory precondition; the caller guarantees the single thread.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        number => Ok(Pid::from_raw(number).map_or(Fork::Child, Fork::Parent)),
    }
}

/// Ends the process immediately: no destructors, no exit handlers, no flush.
pub fn exit_now(status: i32) -> ! {
    // SAFETY: _exit has no precondition.
    unsafe { libc::_exit(status) }
}

/// Duplicates `fd` to `number` with `O_CLOEXEC`, and closes the previous descriptor with that number.
///
/// # Safety
/// Nothing in this process owns descriptor `number`, or its owner never uses or closes it again.
///
/// # Errors
/// The kernel's error.
pub unsafe fn move_to(fd: BorrowedFd<'_>, number: RawFd) -> io::Result<()> {
    if fd.as_raw_fd() == number {
        return Ok(());
    }
    // SAFETY: dup3 accesses no memory; the caller guarantees this for the owner of `number`.
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
/// The kernel's error (`ENOSYS` before Linux 5.9), or an error if closing had no effect.
pub unsafe fn close_others(kept: &[RawFd]) -> io::Result<()> {
    let mut kept: Vec<u32> = kept.iter().filter_map(|fd| u32::try_from(*fd).ok()).collect();
    kept.sort_unstable();
    let (mut first, mut gaps) = (0, Vec::new());
    for fd in kept.into_iter().chain([u32::MAX]) {
        if first < fd {
            let last = if fd == u32::MAX { fd } else { fd - 1 };
            // SAFETY: close_range accesses no memory; the caller guarantees this for the owners.
            if unsafe { libc::close_range(first, last, 0) } == -1 {
                return Err(io::Error::last_os_error());
            }
            gaps.push(first..=last);
        }
        first = fd.saturating_add(1);
    }
    if is_open(&gaps)? { Err(io::Error::other("closing had no effect")) } else { Ok(()) }
}

/// Whether a descriptor in `gaps` is open. Checks only the lowest numbers, which the kernel assigns first.
fn is_open(gaps: &[std::ops::RangeInclusive<u32>]) -> io::Result<bool> {
    let numbers = gaps.iter().cloned().flatten().take_while(|number| *number < CHECKED_FDS);
    let look = |number: u32| libc::pollfd { fd: number.cast_signed(), events: 0, revents: 0 };
    let mut polled: Vec<_> = numbers.map(look).collect();
    // SAFETY: the call gets the vector's own length.
    if unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, 0) } == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(polled.iter().any(|polled| polled.revents != libc::POLLNVAL))
}
