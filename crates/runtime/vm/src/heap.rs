//! Reserves heap in advance, for a process that may not request memory while a script runs.

/// Grows the C heap by `bytes` and makes the allocator retain it. Until that much is in use, allocations of
/// the main thread make no system call. For a worker that is about to give up `brk` and `mmap`; it affects
/// the whole process.
///
/// Returns whether the memory was available.
#[must_use]
pub fn reserve_heap(bytes: usize) -> bool {
    // SAFETY: mallopt only sets allocator parameters; these values are in their documented ranges.
    let set = unsafe {
        // No allocation gets its own mapping, and freed memory at the end of the heap stays.
        libc::mallopt(libc::M_MMAP_MAX, 0) == 1
            && libc::mallopt(libc::M_TRIM_THRESHOLD, libc::c_int::MAX) == 1
    };
    // SAFETY: malloc has no precondition, and free gets malloc's result (null is allowed).
    unsafe {
        // The optimizer may remove an unused pair of malloc and free.
        let block = std::hint::black_box(libc::malloc(bytes));
        libc::free(block);
        set && !block.is_null()
    }
}
