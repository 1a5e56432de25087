//! Heap settings of a process that briefly handles large blocks: scripts, transactions, libraries.

use std::ffi::c_int;

/// Minimum bytes of blocks that are mapped individually, and unmapped when they are freed.
const MAPPED_BYTES_MIN: c_int = 256 << 10;

/// Number of heaps that threads share. Each retains freed memory, which is much with one heap for each thread
/// that ever blocked on a disk.
const ARENAS_MAX: c_int = 4;

/// Makes the process return large blocks to the system when they are freed. Otherwise the C library raises its
/// threshold after the first one, and retains blocks of that size in each heap. Call it before other threads
/// exist.
pub fn give_large_blocks_back() {
    for (parameter, value) in [(libc::M_MMAP_THRESHOLD, MAPPED_BYTES_MIN), (libc::M_ARENA_MAX, ARENAS_MAX)] {
        // SAFETY: mallopt accepts any two numbers, and locks what it changes; unknown parameters change
        // nothing.
        unsafe { libc::mallopt(parameter, value) };
    }
}
