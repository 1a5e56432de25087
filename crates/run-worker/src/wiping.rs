//! The allocator of the run worker: memory that is given back is wiped first, so that a worker that stays keeps nothing of the
//! jobs before, wherever it was copied to meanwhile.

use std::alloc::{GlobalAlloc, Layout, System};

/// The system's allocator, and wiping.
struct Wiping;

#[global_allocator]
static ALLOCATOR: Wiping = Wiping;

// SAFETY: all memory is the system allocator's. A block that grows or shrinks is copied and given back, by the default
// `realloc`, so that what it was is wiped too.
unsafe impl GlobalAlloc for Wiping {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the block is the caller's, all of it, until it is given back.
        unsafe {
            block.write_bytes(0, layout.size());
            // The optimiser must not take the wiping for useless.
            std::hint::black_box(block);
            System.dealloc(block, layout);
        }
    }
}
