//! The system calls that ckb-debugger offers in addition to ckb-script's. Converts registers and memory of a
//! guest to host calls, and applies the answers. The guest sees no descriptor or address of the host.

use std::sync::Arc;

use antares_hosted::{
    Link,
    job::{HOST_CALL_BYTES_MAX, HostAnswer, HostCall, HostedNews, Watched},
};
use ckb_vm::{
    Error, Memory, Register, SupportMachine,
    registers::{A0, A7},
};

use crate::{
    calls::Functions,
    dump,
    guest::{read, set_result, text},
};

const CLOSE: u64 = 57;
const SEEK: u64 = 62;
const READ: u64 = 63;
const WRITE: u64 = 64;
const WRITE_VECTOR: u64 = 66;
const STAT: u64 = 80;
const DUMP: u64 = 4097;
const INPUT: u64 = 9000;
const TIME: u64 = 9001;
const RANDOM: u64 = 9002;
const OPEN: u64 = 9003;
const REOPEN: u64 = 9004;
const READ_STREAM: u64 = 9005;
const IS_AT_END: u64 = 9006;
const HAS_FAILED: u64 = 9007;
const NEXT: u64 = 9008;
const CLOSE_STREAM: u64 = 9009;
const REPORT: u64 = 9010;
const SEEK_STREAM: u64 = 9011;
const WRITE_STREAM: u64 = 9012;
const WRITE_FILE: u64 = 9013;

/// Maximum pieces of one vectored write, as in Linux.
const PIECES_MAX: u64 = 1024;

/// The parent as the host of a guest.
pub(crate) struct Parent {
    pub(crate) link: Arc<dyn Link>,
    pub(crate) has_input: bool,
    pub(crate) may_dump: bool,
}

impl Parent {
    /// Serves the call of `guest`, the VM with this number. Returns false if it does not know the call.
    pub(crate) fn call(&self, vm: u64, guest: &mut impl SupportMachine) -> Result<bool, Error> {
        let [a0, a1, a2, a3] = [0, 1, 2, 3].map(|index| guest.registers()[A0 + index].to_u64());
        let number = guest.registers()[A7].to_u64();
        match number {
            CLOSE => self.give(guest, HostCall::Close(int(a0)))?,
            SEEK => {
                let whence = int(a2);
                if !(0..=2).contains(&whence) {
                    return Err(Error::Unexpected("Unexpected whence".to_owned()));
                }
                self.give(guest, HostCall::Seek(int(a0), a1.cast_signed(), whence))?;
            }
            READ => self.fill(guest, a1, HostCall::Read(int(a0), a2.min(HOST_CALL_BYTES_MAX)))?,
            WRITE => {
                let bytes = read(guest, a1, moved(a2)?)?;
                self.give(guest, HostCall::Write(int(a0), bytes))?;
            }
            WRITE_VECTOR => self.write_vector(guest, int(a0), (a1, a2))?,
            STAT => self.fill(guest, a1, HostCall::Stat(int(a0)))?,
            DUMP if self.may_dump => {
                let elf = dump::elf_of(guest)?;
                self.request(HostCall::Dump(elf))?;
            }
            INPUT if self.has_input => {
                self.fill(guest, a0, HostCall::Input(vm, a1.min(HOST_CALL_BYTES_MAX)))?;
            }
            TIME => self.give(guest, HostCall::Time)?,
            RANDOM => self.give(guest, HostCall::Random)?,
            OPEN | REOPEN => {
                let (path, mode) = (text(guest, a0)?, text(guest, a1)?);
                let replaced = (number == REOPEN).then_some(a2);
                self.give(guest, HostCall::Open(path, mode, replaced))?;
            }
            READ_STREAM => {
                moved(a1.saturating_mul(a2))?;
                self.fill(guest, a0, HostCall::ReadStream(a3, a1, a2))?;
            }
            IS_AT_END => self.give(guest, HostCall::IsAtEnd(a0))?,
            HAS_FAILED => self.give(guest, HostCall::HasFailed(a0))?,
            NEXT => self.give(guest, HostCall::Next(a0))?,
            CLOSE_STREAM => self.give(guest, HostCall::CloseStream(a0))?,
            REPORT => self.give(guest, HostCall::Tell(a0))?,
            SEEK_STREAM => self.give(guest, HostCall::SeekStream(a0, a1.cast_signed(), int(a2)))?,
            WRITE_STREAM => {
                let bytes = read(guest, a0, moved(a1.saturating_mul(a2))?)?;
                self.give(guest, HostCall::WriteStream(a3, a1, bytes))?;
            }
            WRITE_FILE => {
                let (path, bytes) = (text(guest, a0)?, read(guest, a1, moved(a2)?)?);
                self.give(guest, HostCall::WriteFile(path, bytes))?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Sends a line of debug output of the VM with this number.
    pub(crate) fn line(&self, vm: u64, text: &str) {
        self.link.notify(HostedNews::Line { vm, text: text.to_owned() });
    }

    fn request(&self, call: HostCall) -> Result<HostAnswer, Error> {
        let answer = self.link.request(call);
        match answer.error {
            Some(why) => Err(Error::External(why)),
            None => Ok(answer),
        }
    }

    /// Sends a part of what was observed.
    pub(crate) fn watched(&self, part: Watched) {
        self.link.notify(HostedNews::Watched(part));
    }

    /// Requests the functions of a program.
    pub(crate) fn functions(&self, elf: &[u8]) -> Functions {
        let Ok(answer) = self.request(HostCall::Functions(elf.to_vec())) else { return Functions::default() };
        let mut words = answer.bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
        let mut word = || words.next().unwrap_or(0);
        let (sbrk, heap) = (word(), word());
        Functions { starts: words.collect(), sbrk, heap }
    }

    /// Makes the host serve `call`, and returns its value to the guest.
    fn give(&self, guest: &mut impl SupportMachine, call: HostCall) -> Result<(), Error> {
        let answer = self.request(call)?;
        set_result(guest, answer.value.cast_unsigned());
        Ok(())
    }

    /// Like [`Self::give`], and writes the answer's bytes to guest memory.
    fn fill(&self, guest: &mut impl SupportMachine, at: u64, call: HostCall) -> Result<(), Error> {
        let answer = self.request(call)?;
        guest.memory_mut().store_bytes(at, &answer.bytes)?;
        set_result(guest, answer.value.cast_unsigned());
        Ok(())
    }

    fn write_vector(
        &self,
        guest: &mut impl SupportMachine,
        to: i32,
        (at, count): (u64, u64),
    ) -> Result<(), Error> {
        if count > PIECES_MAX {
            set_result(guest, u64::MAX);
            return Ok(());
        }
        let mut bytes = Vec::new();
        for piece in 0..count {
            let entry = read(guest, at.wrapping_add(16 * piece), 16)?;
            let word = |at: usize| entry[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
            let (from, length) = (word(0), word(8));
            moved(length.saturating_add(bytes.len() as u64))?;
            bytes.extend(read(guest, from, length)?);
        }
        self.give(guest, HostCall::Write(to, bytes))
    }
}

/// The lower half of a register, as a C int.
fn int(register: u64) -> i32 {
    #[expect(clippy::cast_possible_truncation, reason = "a C int is the lower half of a register")]
    let low = register as u32;
    low.cast_signed()
}

/// Returns `bytes` if one call may transfer that many.
fn moved(bytes: u64) -> Result<u64, Error> {
    if bytes > HOST_CALL_BYTES_MAX {
        return Err(Error::External(format!("one call moves more than {HOST_CALL_BYTES_MAX} bytes")));
    }
    Ok(bytes)
}
