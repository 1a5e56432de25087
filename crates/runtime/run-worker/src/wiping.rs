//! A reused worker retains no data of earlier jobs, including copies: its allocator wipes freed memory, and
//! its stack is wiped between jobs.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    arch::asm,
    hint::black_box,
    sync::atomic::{AtomicUsize, Ordering},
};

const PAGE_BYTES: usize = 4096;
/// Bytes below a frame that remain for its calls while the rest of the stack is wiped.
const NEAR_BYTES: usize = 16 << 10;
/// Lowest known address of the stack, which only grows.
static STACK_END: AtomicUsize = AtomicUsize::new(0);

/// Wipes the stack below the caller's frame. The thread must be the process's only one, with nothing mapped
/// below its stack.
pub(crate) fn wipe_stack() {
    wipe_far();
    wipe_near();
}

/// Wipes all but the nearest [`NEAR_BYTES`].
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
    // SAFETY: the pages from `end` to `top` belong to the stack, below everything that this function and its
    // calls use; it makes no call during the wipe.
    unsafe {
        asm!("rep stosq", inout("rdi") end => _, inout("rcx") (top - end) / 8 => _, in("rax") 0_u64, options(nostack, preserves_flags));
    }
}

/// Wipes the part that [`wipe_far`] skipped.
#[inline(never)]
fn wipe_near() {
    black_box(&mut [0_u8; NEAR_BYTES]);
}

/// Whether the page at `address` is mapped.
fn is_mapped(address: usize) -> bool {
    let mut page = 0_u8;
    // SAFETY: the query is for one page, and `page` is one byte; the kernel does not change the memory.
    unsafe { libc::mincore(std::ptr::without_provenance_mut(address), PAGE_BYTES, &raw mut page) == 0 }
}

/// The system allocator with wiping of freed memory.
struct Wiping;

#[global_allocator]
static ALLOCATOR: Wiping = Wiping;

// SAFETY: all memory comes from the system allocator. The default `realloc` copies and frees a block that
// grows or shrinks, so the old block is wiped too.
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
        // SAFETY: the whole block belongs to the caller until it is freed.
        unsafe {
            block.write_bytes(0, layout.size());
            // The optimizer must not remove the wiping.
            black_box(block);
            System.dealloc(block, layout);
        }
    }
}
