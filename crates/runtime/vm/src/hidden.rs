//! Host data of running or waiting native code, out of reach of a wrong store: no address computed from base
//! and 32 bits leads here, and generated code does not know its address.

use antares_abi::{HOST_TABLE_OFFSET, HostTable};

use crate::marks::Marks;

/// The host's private part of a machine that runs native code.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct HostState {
    /// Stack pointer to return to on a bailout; written by `enter`.
    pub(crate) stack_pointer: u64,
    /// Address of the host's `Stay`.
    pub(crate) context: u64,
    /// Stack pointer of waiting native code.
    pub(crate) native_stack_pointer: u64,
    /// General registers of waiting native code, in encoding order.
    pub(crate) saved: [u64; 16],
    /// Vector registers `ymm0..ymm15` of waiting native code.
    pub(crate) saved_vectors: [[u64; 4]; 16],
    /// Marked frames, the possible targets of a `longjmp`.
    pub(crate) marks: Marks,
}

/// The host's part of the machine at `base`.
///
/// # Safety
/// `base` is the base of a mapped core.
pub(crate) unsafe fn host_of(base: *mut u8) -> *mut HostState {
    let table = base.wrapping_add(HOST_TABLE_OFFSET).cast::<HostTable>();
    // SAFETY: a mapped core has its table, filled in and readable, at this distance.
    unsafe { (*table).host as *mut HostState }
}
