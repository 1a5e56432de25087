//! Code that a script loads at run time, as a program of its own: executable pages and their addresses.
//!
//! ```text
//! "ANTCODE\x01" | address of the first page, u64 | bytes of the pages, u64 | the bytes up to the last nonzero one
//! ```
//! Scripts get such code by a system call and call it by its address. Two pieces with equal files are the
//! same code at the same address, so they share native code. ckb-vm loads no such file as a program.

use crate::GUEST_MEMORY_BYTES;

/// The first bytes of such a file. ELF files begin differently, and their fifth byte is a class, unlike here.
pub const LOADED_CODE_MAGIC: [u8; 8] = *b"ANTCODE\x01";

/// Bytes in front of the code.
pub const LOADED_CODE_HEAD_BYTES: usize = 24;

const PAGE_BYTES: u64 = 4096;

/// Executable pages that do not come from an ELF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadedCode<'a> {
    /// Address of the first page.
    pub start: u64,
    /// Address after the last page.
    pub end: u64,
    /// Their content; zeros follow.
    pub code: &'a [u8],
}

impl<'a> LoadedCode<'a> {
    /// The pages at `start` with the content `memory`. None unless they are whole pages in guest memory.
    #[must_use]
    pub fn new(start: u64, memory: &'a [u8]) -> Option<Self> {
        let end = start.checked_add(memory.len() as u64)?;
        let length = memory.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let is_whole = start.is_multiple_of(PAGE_BYTES) && end.is_multiple_of(PAGE_BYTES);
        let is_in_memory = start < end && end <= GUEST_MEMORY_BYTES;
        (is_whole && is_in_memory).then_some(Self { start, end, code: &memory[..length] })
    }

    /// Parses a file; none if it is no such file. Each code has exactly one file.
    #[must_use]
    pub fn read(file: &'a [u8]) -> Option<Self> {
        let (magic, rest) = file.split_first_chunk()?;
        let (start, rest) = rest.split_first_chunk()?;
        let (bytes, code) = rest.split_first_chunk()?;
        let (start, bytes) = (u64::from_le_bytes(*start), u64::from_le_bytes(*bytes));
        let end = start.checked_add(bytes)?;
        let is_whole = start.is_multiple_of(PAGE_BYTES) && end.is_multiple_of(PAGE_BYTES);
        let is_in_memory = start < end && end <= GUEST_MEMORY_BYTES && code.len() as u64 <= bytes;
        let is_short = code.last().is_none_or(|last| *last != 0);
        (*magic == LOADED_CODE_MAGIC && is_whole && is_in_memory && is_short).then_some(Self {
            start,
            end,
            code,
        })
    }

    /// The bytes of the file.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let numbers = [self.start, self.end - self.start].map(u64::to_le_bytes);
        [LOADED_CODE_MAGIC.as_slice(), numbers.as_flattened(), self.code].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_say_what_was_loaded() {
        let mut memory = vec![0; 8192];
        memory[5] = 7;
        let code = LoadedCode::new(0x20_0000, &memory).unwrap();
        assert_eq!((code.end, code.code.len()), (0x20_2000, 6));
        let file = code.to_bytes();
        assert_eq!(file.len(), LOADED_CODE_HEAD_BYTES + 6);
        assert_eq!(LoadedCode::read(&file), Some(code));
    }

    #[test]
    fn other_files_and_places_are_none() {
        let memory = [1; 4096];
        assert_eq!(LoadedCode::new(0x20_0010, &memory), None);
        assert_eq!(LoadedCode::new(0x20_0000, &memory[1..]), None);
        assert_eq!(LoadedCode::new(GUEST_MEMORY_BYTES, &memory), None);
        assert_eq!(LoadedCode::new(u64::MAX - 4095, &memory), None);
        assert_eq!(LoadedCode::new(0x20_0000, &[]), None);
        let file = LoadedCode::new(0x20_0000, &memory).unwrap().to_bytes();
        for (at, byte) in [(0, 0x7f), (7, 2), (8, 1), (15, 0xff), (16, 1), (17, 0), (file.len() - 1, 0)] {
            let mut file = file.clone();
            file[at] = byte;
            assert_eq!(LoadedCode::read(&file), None, "{at}");
        }
        assert_eq!(LoadedCode::read(&[file.as_slice(), &[1]].concat()), None);
        assert_eq!(LoadedCode::read(&file[..23]), None);
    }
}
