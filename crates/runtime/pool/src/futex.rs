//! The only system call of a channel: waits for a word of shared memory, and wakes waiters.

use std::{ptr, sync::atomic::AtomicU32, time::Duration};

/// Sleeps until `word` is woken, if its value is still `seen`, for at most `left`.
pub(crate) fn sleep(word: &AtomicU32, seen: u32, left: Option<Duration>) {
    let limit = left.map(|left| libc::timespec {
        // A year is practically unlimited, and fits.
        tv_sec: libc::time_t::try_from(left.as_secs().min(31_536_000)).unwrap_or(libc::time_t::MAX),
        tv_nsec: left.subsec_nanos().into(),
    });
    let limit = limit.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: the word and the limit live until the call returns. An early return is allowed.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, seen, limit) };
}

/// Wakes the sleepers at `word`.
pub(crate) fn wake(word: &AtomicU32) {
    // SAFETY: the kernel only uses the word's address.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, 1) };
}
