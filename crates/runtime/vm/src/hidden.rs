//! What the host keeps of native code that runs or waits, out of reach of a wrong store: nothing that
//! generated code computes from base and 32 bits leads here. Generated code has no name for it.

use antares_abi::{HOST_TABLE_OFFSET, HostTable};

use crate::marks::Marks;

/// The host's own part of a machine that runs native code.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct HostState {
    /// Stack pointer to return to when native code is left; written by `enter`.
    pub(crate) stack_pointer: u64,
    /// Where the host finds what it knows of this stay.
    pub(crate) context: u64,
    /// Stack pointer of native code that waits.
    pub(crate) native_stack_pointer: u64,
    /// General registers of native code that waits, in the order of their encoding.
    pub(crate) saved: [u64; 16],
    /// Vector registers `ymm0..ymm15` of native code that waits.
    pub(crate) saved_vectors: [[u64; 4]; 16],
    /// Frames that may be returned to again.
    pub(crate) marks: Marks,
}

/// The host's part of the machine with this base.
///
/// # Safety
/// `base` is the base of a mapped core.
pub(crate) unsafe fn host_of(base: *mut u8) -> *mut HostState {
    let table = base.wrapping_add(HOST_TABLE_OFFSET).cast::<HostTable>();
    // SAFETY: a mapped core has its table, filled in and readable, at this distance.
    unsafe { (*table).host as *mut HostState }
}
