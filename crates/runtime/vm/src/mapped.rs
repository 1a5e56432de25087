//! Machines as they are mapped: one, for whoever asks by ckb-vm's trait, and all of a transaction ahead of
//! it.

use ckb_vm::{RISCV_MAX_MEMORY, machine::asm::AsmCoreMachineRevealer};

use crate::{
    VmError, enter,
    limits::{MACHINES_MAX, NATIVE_STACK_BYTES},
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
