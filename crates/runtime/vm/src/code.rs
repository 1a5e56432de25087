//! The native code of a machine, and the system calls that change it.

use std::ops::Range;

use antares_abi::FrameAt;
use ckb_vm::{
    CoreMachine, DefaultMachine, Error, Machine as _,
    registers::{A0, A7},
};

use crate::memory::Core;

/// Number of the syscall that may make memory executable, `load_cell_data_as_code`.
pub(crate) const LOAD_CODE: u64 = 2091;
/// Number of the syscall that stores a cell's data, `load_cell_data`: ckb-vm may restore those pages from the
/// cell.
pub(crate) const LOAD_CELL_DATA: u64 = 2092;
/// Result of a successful system call.
pub(crate) const SUCCESS: u64 = 0;

/// The native code of a machine.
pub(crate) trait Code {
    /// Host addresses of all native code that may run.
    fn texts(&self) -> &[Range<usize>];
    /// Sets `frame` to the guest functions at a host address; returns the index of their library.
    fn frame(&self, address: usize, frame: &mut FrameAt) -> Option<usize>;
    /// The entry thunk for a guest address.
    fn thunk(&self, pc: u64) -> Option<*const u8>;
    /// Handles pages that may have become executable. Returns whether native code may resume.
    fn changed(&mut self, core: &mut Core) -> bool;
    /// Whether native code cannot write to any executable page: either its checks cover the page, or the page
    /// is protected.
    fn is_sealed(&self, core: &Core) -> bool;
}

/// Lets ckb-vm handle the ecall before the machine's pc, and records the pages that it filled. Returns
/// whether native code may resume.
pub(crate) fn call(vm: &mut DefaultMachine<Core>, code: &mut dyn Code) -> Result<bool, Error> {
    let number = vm.registers()[A7];
    let data = (number == LOAD_CELL_DATA).then(|| vm.inner_mut().data_to_load());
    vm.ecall()?;
    if vm.registers()[A0] != SUCCESS {
        return Ok(true);
    }
    if let Some(data) = data {
        vm.inner_mut().fill(data);
    }
    Ok(number != LOAD_CODE || code.changed(vm.inner_mut()))
}
