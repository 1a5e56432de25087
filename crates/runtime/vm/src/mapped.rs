//! Creates machine mappings: one through ckb-vm's trait, or all of a transaction's in advance.

use ckb_vm::{RISCV_MAX_MEMORY, machine::asm::AsmCoreMachineRevealer};

use crate::{
    VmError, enter,
    limits::{CACHED_PAGES_MAX, MACHINES_MAX, NATIVE_STACK_BYTES},
    memory::{CORES, Core},
    stack::{NativeStack, STACKS},
};

impl AsmCoreMachineRevealer for Core {
    /// # Panics
    /// If the kernel refuses memory, or if `memory_size` is not ckb-vm's 4 MiB: ckb-vm's trait cannot return
    /// an error.
    fn new(isa: u8, version: u32, max_cycles: u64, memory_size: usize) -> Self {
        assert_eq!(memory_size, RISCV_MAX_MEMORY, "generated code knows one size of guest memory");
        let mut core = match Self::map(enter::table) {
            Ok(core) => core,
            Err(error) => panic!("{error}: {:?}", std::error::Error::source(&error)),
        };
        core.reset(isa, version, max_cycles);
        core
    }
}

/// Maps all machines that a transaction can need at once, and keeps them mapped. For a worker that is about
/// to give up `mmap` and `munmap`. A machine takes only address space until it is used.
///
/// # Errors
/// If the kernel refuses address space.
pub fn reserve_machines() -> Result<(), VmError> {
    CORES.fill(MACHINES_MAX, Core::reserve_memory)?;
    STACKS.fill(MACHINES_MAX, |count| NativeStack::reserve(NATIVE_STACK_BYTES, count))
}

/// Reuses the memory of up to `count` idle machines, so that later runs need no new mappings. An idle machine
/// holds at most 512 pages of memory and 512 of its stack, all zero. Has no effect if as many are already
/// reserved or cached.
pub fn cache_machines(count: usize) {
    CORES.allow(count, CACHED_PAGES_MAX);
    STACKS.allow(count, CACHED_PAGES_MAX);
}
