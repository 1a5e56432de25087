//! The heap of a process that handles large blocks for a moment: scripts, transactions, libraries.

use std::ffi::c_int;

/// Blocks from this many bytes on are mapped by themselves, and given back when they are freed.
const MAPPED_BYTES_MIN: c_int = 256 << 10;

/// Heaps that threads share. Each keeps what was freed in it: with one for each thread that ever blocked on a
/// disk, that is much.
const ARENAS_MAX: c_int = 4;

/// Has the process give large blocks back to the system when they are freed. The C library would learn from
/// the first one that blocks of its size are better kept, in each of its heaps. Call it before there are
/// threads.
pub fn give_large_blocks_back() {
    for (parameter, value) in [(libc::M_MMAP_THRESHOLD, MAPPED_BYTES_MIN), (libc::M_ARENA_MAX, ARENAS_MAX)] {
        // SAFETY: mallopt takes any two numbers, and locks what it changes; one that it does not know changes
        // nothing.
        unsafe { libc::mallopt(parameter, value) };
    }
}
