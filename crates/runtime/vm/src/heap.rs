//! Heap taken in advance, for a process that may not ask the kernel for memory while a script runs.

/// Grows the C heap by `bytes` and makes the allocator keep it: until that much is in use, allocations of the
/// main thread make no system call. For a worker that is about to give up `brk` and `mmap`; it changes the
/// whole process.
///
/// Returns whether the memory could be had.
#[must_use]
pub fn reserve_heap(bytes: usize) -> bool {
    // SAFETY: mallopt only sets parameters of the allocator; these values are in their documented ranges.
    let set = unsafe {
        // No allocation gets a mapping of its own, and freed memory at the end of the heap stays.
        libc::mallopt(libc::M_MMAP_MAX, 0) == 1
            && libc::mallopt(libc::M_TRIM_THRESHOLD, libc::c_int::MAX) == 1
    };
    // SAFETY: malloc has no precondition, and free gets what malloc gave (or null, which is allowed).
    unsafe {
        // The optimiser may drop a pair of malloc and free that nobody looks at.
        let block = std::hint::black_box(libc::malloc(bytes));
        libc::free(block);
        set && !block.is_null()
    }
}
