//! The one system call of a channel: waiting for a word of shared memory, and waking who waits.

use std::{ptr, sync::atomic::AtomicU32, time::Duration};

/// Sleeps until `word` is woken, if it is still `seen`, for `left` at most.
pub(crate) fn sleep(word: &AtomicU32, seen: u32, left: Option<Duration>) {
    let limit = left.map(|left| libc::timespec {
        // A year is as good as for ever, and fits.
        tv_sec: libc::time_t::try_from(left.as_secs().min(31_536_000)).unwrap_or(libc::time_t::MAX),
        tv_nsec: left.subsec_nanos().into(),
    });
    let limit = limit.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: the word and the limit live until the call returns. That it returns early is allowed.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, seen, limit) };
}

/// Wakes whoever sleeps at `word`.
pub(crate) fn wake(word: &AtomicU32) {
    // SAFETY: the kernel uses the word as an address alone.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, 1) };
}
