//! Debug output: syscall 2177 as in ckb-script (`syscalls/debugger.rs`), written to a log with a limit.

use std::{
    ffi::CStr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use antares_hosted::job::DebugLog;
use ckb_vm::{
    CoreMachine, Error, SupportMachine, Syscalls,
    registers::{A0, A7},
};

use crate::{limits::DETAIL_BYTES_MAX, memory::Core};

/// Number of the syscall: a0 is the address of a NUL-terminated UTF-8 string.
const DEBUG_PRINT: u64 = 2177;

/// The log of the current run, shared by the machine and its syscall.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedLog(Arc<Mutex<DebugLog>>);

impl SharedLog {
    /// Locks the log; a panic elsewhere cannot leave it inconsistent.
    pub(crate) fn lock(&self) -> MutexGuard<'_, DebugLog> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The debug syscall.
pub(crate) struct DebugPrint(pub(crate) SharedLog);

impl Syscalls<Core> for DebugPrint {
    fn initialize(&mut self, _machine: &mut Core) -> Result<(), Error> {
        Ok(())
    }

    fn ecall(&mut self, machine: &mut Core) -> Result<bool, Error> {
        if machine.registers()[A7] != DEBUG_PRINT {
            return Ok(false);
        }
        let length = string_length(machine.bytes(), machine.registers()[A0])?;
        machine.add_cycles_no_checking(length.div_ceil(4) as u64)?;
        let address = usize::try_from(machine.registers()[A0]).map_err(|_| Error::MemOutOfBound)?;
        let string = &machine.bytes()[address..address + length];
        let line = str::from_utf8(string).map_err(|error| not_utf8(string, error))?;
        self.0.lock().push(line);
        Ok(true)
    }
}

/// Length of the string at `address` in bytes, without its NUL. A string that runs past the end of memory is
/// out of bounds, as with a bytewise read.
fn string_length(memory: &[u8], address: u64) -> Result<usize, Error> {
    let rest = usize::try_from(address).ok().and_then(|address| memory.get(address..));
    let string = rest.and_then(|rest| CStr::from_bytes_until_nul(rest).ok()).ok_or(Error::MemOutOfBound)?;
    Ok(string.count_bytes())
}

/// ckb-script's error text: it contains a `FromUtf8Error`, which starts with all bytes. Error details are
/// truncated, so only that many bytes are formatted here.
fn not_utf8(string: &[u8], error: std::str::Utf8Error) -> Error {
    let shown = &string[..string.len().min(DETAIL_BYTES_MAX)];
    Error::External(format!("String from buffer FromUtf8Error {{ bytes: {shown:?}, error: {error:?} }}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_text_is_ckb_script_s() {
        let bytes = vec![b'a', 0xff, b'b'];
        let theirs = String::from_utf8(bytes.clone()).unwrap_err();
        let ours = not_utf8(&bytes, str::from_utf8(&bytes).unwrap_err());
        assert_eq!(ours, Error::External(format!("String from buffer {theirs:?}")));
    }

    #[test]
    fn a_string_ends_inside_memory() {
        assert_eq!(string_length(b"ab\0", 0), Ok(2));
        assert_eq!(string_length(b"ab\0", 2), Ok(0));
        assert_eq!(string_length(b"ab\0", 3), Err(Error::MemOutOfBound));
        assert_eq!(string_length(b"ab", 1), Err(Error::MemOutOfBound));
        assert_eq!(string_length(b"ab", u64::MAX), Err(Error::MemOutOfBound));
    }
}
