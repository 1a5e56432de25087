//! Custom system calls.

use std::sync::{Arc, Mutex, PoisonError};

use antares_vm::{Core, failure};
use ckb_vm::{
    CoreMachine as _, Error as VmError, Memory as _, SupportMachine as _,
    registers::{A0, A7},
};

use crate::Trap;

/// Maximum bytes of one read or write: the whole guest memory.
const BYTES_MAX: usize = 4 << 20;

/// Custom system calls, in addition to exit (93) and debug output (2177), which always exist.
pub trait Syscalls: Send {
    /// Called when the script begins. If native code bails out, the script begins a second time in the same
    /// run: discard all effects of its earlier calls.
    fn begin(&mut self) {}

    /// Called for a system call of the script. `guest` gives access to guest memory only; the script cannot
    /// reach anything else in the process.
    ///
    /// # Errors
    /// The trap that ends the script.
    fn call(&mut self, guest: &mut Guest<'_>) -> Result<Flow, Trap>;
}

/// Whether the implementation handled a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Flow {
    /// Handled; the script continues.
    Continue,
    /// Unknown call: the script ends with `InvalidEcall`.
    NotMine,
}

/// The calling script: its registers and memory.
pub struct Guest<'a> {
    core: &'a mut Core,
}

impl Guest<'_> {
    /// Number of the call, from `a7`.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.core.registers()[A7]
    }

    /// Argument `a0` to `a5`; 0 for others.
    #[must_use]
    pub fn arg(&self, n: usize) -> u64 {
        if n < 6 { self.core.registers()[A0 + n] } else { 0 }
    }

    /// Sets the result, which is in `a0` after the call.
    pub fn set_result(&mut self, value: u64) {
        self.core.set_register(A0, value);
    }

    /// Charges cycles in addition to the 500 of every call.
    ///
    /// # Errors
    /// The script would exceed its cycle limit.
    pub fn charge(&mut self, cycles: u64) -> Result<(), Trap> {
        self.core.add_cycles(cycles).map_err(|error| to_trap(&error))
    }

    /// Reads guest memory.
    ///
    /// # Errors
    /// The range is not within guest memory.
    pub fn read(&mut self, at: u64, length: usize) -> Result<Vec<u8>, Trap> {
        if length > BYTES_MAX {
            return Err(to_trap(&VmError::MemOutOfBound));
        }
        let bytes = self.core.memory_mut().load_bytes(at, length as u64);
        bytes.map(|bytes| bytes.to_vec()).map_err(|error| to_trap(&error))
    }

    /// Writes guest memory.
    ///
    /// # Errors
    /// The range is not within guest memory, or contains code pages.
    pub fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), Trap> {
        self.core.memory_mut().store_bytes(at, bytes).map_err(|error| to_trap(&error))
    }
}

fn to_trap(error: &VmError) -> Trap {
    let name = match failure(error.clone()) {
        antares_vm::Outcome::Error { name, .. } => name,
        _ => "CyclesExceeded".to_owned(),
    };
    Trap { name, detail: None }
}

fn to_vm_error(trap: &Trap) -> VmError {
    match trap.name() {
        "CyclesExceeded" => VmError::CyclesExceeded,
        "CyclesOverflow" => VmError::CyclesOverflow,
        "MemOutOfBound" => VmError::MemOutOfBound,
        "MemWriteOnExecutablePage" => VmError::MemWriteOnExecutablePage,
        _ => VmError::External(trap.detail().unwrap_or(trap.name()).to_owned()),
    }
}

/// System calls shared by a run and the embedder.
type Shared = Arc<Mutex<dyn Syscalls>>;

/// System calls of the current run of a machine.
#[derive(Clone, Default)]
pub(crate) struct Slot(Arc<Mutex<Option<Shared>>>);

impl Slot {
    pub(crate) fn set(&self, calls: Option<Shared>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = calls;
    }

    fn now(&self) -> Option<Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ckb_vm::Syscalls<Core> for Slot {
    fn initialize(&mut self, _: &mut Core) -> Result<(), VmError> {
        if let Some(calls) = self.now() {
            calls.lock().unwrap_or_else(PoisonError::into_inner).begin();
        }
        Ok(())
    }

    fn ecall(&mut self, core: &mut Core) -> Result<bool, VmError> {
        let Some(calls) = self.now() else { return Ok(false) };
        let flow = calls.lock().unwrap_or_else(PoisonError::into_inner).call(&mut Guest { core });
        flow.map(|flow| flow == Flow::Continue).map_err(|trap| to_vm_error(&trap))
    }
}
