//! Access to a guest during a system call, for handlers of calls that ckb-script does not implement.

use ckb_vm::{
    Error, Memory, Register, SupportMachine,
    memory::{FLAG_EXECUTABLE, FLAG_WXORX_BIT},
    registers::A0,
};

/// Maximum bytes of a text argument.
const TEXT_BYTES_MAX: usize = 4096;

/// Reads `bytes` bytes of guest memory.
///
/// # Errors
/// The VM's error for memory that does not exist.
pub(crate) fn read(guest: &mut impl SupportMachine, at: u64, bytes: u64) -> Result<Vec<u8>, Error> {
    Ok(guest.memory_mut().load_bytes(at, bytes)?.to_vec())
}

/// Reads a NUL-terminated text.
///
/// # Errors
/// The VM's error, or an error if the text is longer than 4096 bytes.
pub(crate) fn text<M: SupportMachine>(guest: &mut M, at: u64) -> Result<Vec<u8>, Error> {
    let mut text = Vec::new();
    loop {
        let address = at.wrapping_add(text.len() as u64);
        let byte = guest.memory_mut().load8(&M::REG::from_u64(address))?.to_u8();
        if byte == 0 {
            return Ok(text);
        }
        if text.len() == TEXT_BYTES_MAX {
            return Err(Error::External("a path has more than 4096 bytes".to_owned()));
        }
        text.push(byte);
    }
}

/// Sets the result of the call.
pub(crate) fn set_result<M: SupportMachine>(guest: &mut M, value: u64) {
    guest.set_register(A0, M::REG::from_u64(value));
}

/// Whether a page is executable.
///
/// # Errors
/// The VM's error for a page that does not exist.
pub(crate) fn is_code(guest: &mut impl SupportMachine, page: u64) -> Result<bool, Error> {
    Ok(guest.memory_mut().fetch_flag(page)? & FLAG_WXORX_BIT == FLAG_EXECUTABLE)
}
