//! A worker that stays keeps nothing of the jobs before, wherever it was copied to meanwhile: its allocator
//! wipes memory that is given back, and its stack is wiped between jobs.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    arch::asm,
    hint::black_box,
    sync::atomic::{AtomicUsize, Ordering},
};

/// Bytes of a page.
const PAGE_BYTES: usize = 4096;
/// Bytes below a frame that its own calls may use while the rest of the stack is wiped.
const NEAR_BYTES: usize = 16 << 10;
/// Where the stack was seen to end, downwards; it only grows.
static STACK_END: AtomicUsize = AtomicUsize::new(0);

/// Wipes the stack below the caller's frame. The thread is the process's only one: below its stack nothing is
/// mapped.
pub(crate) fn wipe_stack() {
    wipe_far();
    wipe_near();
}

/// All of it but for [`NEAR_BYTES`].
#[inline(never)]
fn wipe_far() {
    let here = 0_u64;
    let top = ((&raw const here) as usize - NEAR_BYTES / 2) & !(PAGE_BYTES - 1);
    let mut end = match STACK_END.load(Ordering::Relaxed) {
        0 => top,
        end => end.min(top),
    };
    while is_mapped(end - PAGE_BYTES) {
        end -= PAGE_BYTES;
    }
    STACK_END.store(end, Ordering::Relaxed);
    // SAFETY: the pages from `end` to `top` are the stack's, below all that this function and what it calls
    // use; it calls nothing meanwhile.
    unsafe {
        asm!("rep stosq", inout("rdi") end => _, inout("rcx") (top - end) / 8 => _, in("rax") 0_u64, options(nostack, preserves_flags));
    }
}

/// What [`wipe_far`] left.
#[inline(never)]
fn wipe_near() {
    black_box(&mut [0_u8; NEAR_BYTES]);
}

/// Whether the page at `address` belongs to the process.
fn is_mapped(address: usize) -> bool {
    let mut page = 0_u8;
    // SAFETY: one page is asked about, for which there is a byte; the kernel only looks.
    unsafe { libc::mincore(std::ptr::without_provenance_mut(address), PAGE_BYTES, &raw mut page) == 0 }
}

/// The system's allocator, and wiping.
struct Wiping;

#[global_allocator]
static ALLOCATOR: Wiping = Wiping;

// SAFETY: all memory is the system allocator's. A block that grows or shrinks is copied and given back, by
// the default `realloc`, so that what it was is wiped too.
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
            black_box(block);
            System.dealloc(block, layout);
        }
    }
}
