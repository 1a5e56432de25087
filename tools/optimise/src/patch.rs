//! The bytes of the file that the code at an address comes from.

use object::{Object as _, ObjectSegment as _, read::elf::ElfFile64};

use crate::RewriteError;

/// Where an ELF's header has the place of the program headers, the length of one, and how many there are.
const PHOFF: usize = 32;
const PHENTSIZE: usize = 54;
const PHNUM: usize = 56;

/// Bytes of a program header.
const PROGRAM_HEADER_BYTES: usize = 56;

/// A copy of a file, to be changed by addresses.
pub(crate) struct Patches {
    pub(crate) elf: Vec<u8>,
    /// Address, bytes in the file, and where these are.
    segments: Vec<Part>,
}

struct Part {
    address: u64,
    bytes: u64,
    offset: u64,
}

impl Patches {
    pub(crate) fn new(elf: &[u8]) -> Self {
        let segments = ElfFile64::<object::Endianness>::parse(elf).map(|file| {
            let part = |segment: object::read::elf::ElfSegment64<'_, '_>| {
                let (offset, bytes) = segment.file_range();
                Part { address: segment.address(), bytes, offset }
            };
            file.segments().map(part).collect()
        });
        Self { elf: elf.to_vec(), segments: segments.unwrap_or_default() }
    }

    /// Where what is loaded begins.
    pub(crate) fn first_address(&self) -> Option<u64> {
        self.segments.iter().filter(|part| part.bytes > 0).map(|part| part.address).min()
    }

    /// Adds `code` at `address`, which nothing else has, as a segment of its own behind all that is there.
    pub(crate) fn add_code(&mut self, address: u64, code: &[u8]) -> Option<()> {
        let number = |bytes: &[u8], at: usize, length: usize| -> Option<u64> {
            let mut word = [0; 8];
            word[..length].copy_from_slice(bytes.get(at..at + length)?);
            Some(u64::from_le_bytes(word))
        };
        let table = usize::try_from(number(&self.elf, PHOFF, 8)?).ok()?;
        let count = usize::try_from(number(&self.elf, PHNUM, 2)?).ok()?;
        if number(&self.elf, PHENTSIZE, 2)? != PROGRAM_HEADER_BYTES as u64 {
            return None;
        }
        let headers = self.elf.get(table..table + count * PROGRAM_HEADER_BYTES)?.to_vec();
        self.elf.resize(self.elf.len().next_multiple_of(8), 0);
        let offset = self.elf.len() as u64;
        self.elf.extend(code);
        self.elf.resize(self.elf.len().next_multiple_of(8), 0);
        let (place, length) = (self.elf.len() as u64, code.len() as u64);
        // Loaded, readable and executable.
        self.elf.extend([1_u32, 5].iter().flat_map(|word| word.to_le_bytes()));
        for word in [offset, address, address, length, length, 8] {
            self.elf.extend(word.to_le_bytes());
        }
        self.elf.extend(headers);
        self.elf[PHOFF..PHOFF + 8].copy_from_slice(&place.to_le_bytes());
        let count = u16::try_from(count + 1).ok()?;
        self.elf[PHNUM..PHNUM + 2].copy_from_slice(&count.to_le_bytes());
        Some(())
    }

    /// Where the `length` bytes at `pc` are in the file.
    pub(crate) fn place(&self, pc: u64, length: usize) -> Result<usize, RewriteError> {
        let length = length as u64;
        let no_place = RewriteError::NoPlace { pc };
        let has = |part: &&Part| {
            pc.checked_sub(part.address)
                .and_then(|from| from.checked_add(length))
                .is_some_and(|end| end <= part.bytes)
        };
        let mut parts = self.segments.iter().filter(has);
        let (Some(part), None) = (parts.next(), parts.next()) else { return Err(no_place) };
        // Segments that overlap in the file would have one change seen at two addresses.
        let start = part.offset + (pc - part.address);
        let shares = |other: &&Part| start < other.offset + other.bytes && other.offset < start + length;
        if self.segments.iter().filter(shares).count() > 1 || start + length > self.elf.len() as u64 {
            return Err(no_place);
        }
        usize::try_from(start).map_err(|_| no_place)
    }

    /// Writes `bytes` where `pc` comes from; says where that is.
    pub(crate) fn write(&mut self, pc: u64, bytes: &[u8]) -> Result<usize, RewriteError> {
        let place = self.place(pc, bytes.len())?;
        self.elf[place..place + bytes.len()].copy_from_slice(bytes);
        Ok(place)
    }
}
