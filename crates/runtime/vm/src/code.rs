//! The code that a machine has beside its memory, and the system calls that change which code that is.

use std::ops::Range;

use antares_abi::FrameAt;
use ckb_vm::{
    CoreMachine, DefaultMachine, Error, Machine as _,
    registers::{A0, A7},
};

use crate::memory::Core;

/// Number of the syscall that may make memory executable, `load_cell_data_as_code`.
const LOAD_CODE: u64 = 2091;
/// Number of the syscall that stores a cell's data, `load_cell_data`: ckb-vm may take those pages back from
/// the cell.
const LOAD_CELL_DATA: u64 = 2092;
/// What system calls answer when they have done what they were asked for.
const SUCCESS: u64 = 0;

/// The code that a machine has beside its memory.
pub(crate) trait Code {
    /// Host addresses of all native code that may run.
    fn texts(&self) -> &[Range<usize>];
    /// Makes `frame` the guest functions that a host address is in; gives which of the machine's libraries it
    /// is in.
    fn frame(&self, address: usize, frame: &mut FrameAt) -> Option<usize>;
    /// The entry thunk for a guest address.
    fn thunk(&self, pc: u64) -> Option<*const u8>;
    /// Memory may have become executable. Whether native code may go on.
    fn changed(&mut self, core: &mut Core) -> bool;
    /// Whether native code can write to no executable page: either its checks know the page, or it is
    /// protected.
    fn is_sealed(&self, core: &Core) -> bool;
}

/// Lets ckb-vm handle the ecall before the machine's pc, and notes which pages have changed hands. Whether
/// native code may go on.
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
