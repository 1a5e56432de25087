//! Access to a guest during a system call, for handlers of calls that ckb-script does not implement.

use ckb_vm::{
    CoreMachine, Memory, Register, SupportMachine,
    memory::{FLAG_EXECUTABLE, FLAG_WXORX_BIT},
    registers::{A0, A7},
};

pub(crate) use ckb_vm::Error as GuestError;

/// Maximum bytes of a text argument.
const TEXT_BYTES_MAX: usize = 4096;

/// Registers and memory of a guest that made a system call.
pub(crate) trait Guest {
    /// The number of the system call.
    fn number(&self) -> u64;
    /// An argument of the call, index 0 to 5.
    fn argument(&self, index: usize) -> u64;
    /// All registers.
    fn registers(&self) -> Vec<u64>;
    /// The pc at which the guest resumes.
    fn pc(&self) -> u64;
    /// Reads `bytes` bytes of guest memory.
    ///
    /// # Errors
    /// The VM's error for memory that does not exist.
    fn read(&mut self, at: u64, bytes: u64) -> Result<Vec<u8>, GuestError>;
    /// Reads a NUL-terminated text.
    ///
    /// # Errors
    /// The VM's error, or an error if the text is longer than 4096 bytes.
    fn text(&mut self, at: u64) -> Result<Vec<u8>, GuestError>;
    /// Writes guest memory.
    ///
    /// # Errors
    /// The VM's error for memory that is not writable.
    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), GuestError>;
    /// Sets the result of the call.
    fn set_result(&mut self, value: u64);
    /// Whether a page is executable.
    ///
    /// # Errors
    /// The VM's error for a page that does not exist.
    fn is_code(&mut self, page: u64) -> Result<bool, GuestError>;
    /// Size of guest memory in bytes.
    fn memory_bytes(&self) -> u64;
}

impl<M: SupportMachine> Guest for M {
    fn number(&self) -> u64 {
        CoreMachine::registers(self)[A7].to_u64()
    }

    fn argument(&self, index: usize) -> u64 {
        CoreMachine::registers(self)[A0 + index].to_u64()
    }

    fn registers(&self) -> Vec<u64> {
        CoreMachine::registers(self).iter().map(Register::to_u64).collect()
    }

    fn pc(&self) -> u64 {
        CoreMachine::pc(self).to_u64()
    }

    fn read(&mut self, at: u64, bytes: u64) -> Result<Vec<u8>, GuestError> {
        Ok(self.memory_mut().load_bytes(at, bytes)?.to_vec())
    }

    fn text(&mut self, at: u64) -> Result<Vec<u8>, GuestError> {
        let mut text = Vec::new();
        loop {
            let address = at.wrapping_add(text.len() as u64);
            let byte = self.memory_mut().load8(&M::REG::from_u64(address))?.to_u8();
            if byte == 0 {
                return Ok(text);
            }
            if text.len() == TEXT_BYTES_MAX {
                return Err(GuestError::External("a path has more than 4096 bytes".to_owned()));
            }
            text.push(byte);
        }
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), GuestError> {
        self.memory_mut().store_bytes(at, bytes)
    }

    fn set_result(&mut self, value: u64) {
        self.set_register(A0, M::REG::from_u64(value));
    }

    fn is_code(&mut self, page: u64) -> Result<bool, GuestError> {
        Ok(self.memory_mut().fetch_flag(page)? & FLAG_WXORX_BIT == FLAG_EXECUTABLE)
    }

    fn memory_bytes(&self) -> u64 {
        self.memory().memory_size() as u64
    }
}
