//! Machines as they are mapped: one, for whoever asks by ckb-vm's trait, and all of a transaction ahead of
//! it.

use ckb_vm::{RISCV_MAX_MEMORY, machine::asm::AsmCoreMachineRevealer};

use crate::{
    VmError, enter,
    limits::{CACHED_PAGES_MAX, MACHINES_MAX, NATIVE_STACK_BYTES},
    memory::{CORES, Core},
    stack::{NativeStack, STACKS},
};

impl AsmCoreMachineRevealer for Core {
    /// # Panics
    /// When the kernel refuses memory, or `memory_size` is not ckb-vm's 4 MiB: ckb-vm's trait has no way to
    /// answer.
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

/// Maps all machines that a transaction can need at once, and keeps them mapped from now on. For a worker
/// that is about to give up `mmap` and `munmap`; each is address space alone until it is used.
///
/// # Errors
/// When the kernel refuses address space.
pub fn reserve_machines() -> Result<(), VmError> {
    CORES.fill(MACHINES_MAX, Core::reserve_memory)?;
    STACKS.fill(MACHINES_MAX, |count| NativeStack::reserve(NATIVE_STACK_BYTES, count))
}

/// Reuses the memory of up to `count` idle machines for later ones, so that a run needs no new mappings. Each
/// machine holds at most 512 pages, and as many of its stack, while it is idle; all read as
/// zeros. Without effect if as many are reserved or cached already.
pub fn cache_machines(count: usize) {
    CORES.allow(count, CACHED_PAGES_MAX);
    STACKS.allow(count, CACHED_PAGES_MAX);
}
