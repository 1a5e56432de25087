//! The bytes of the file that the code at an address comes from.

use object::{Object as _, ObjectSegment as _, read::elf::ElfFile64};

use crate::RewriteError;

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

    /// Writes `bytes` where `pc` comes from; says where that is.
    pub(crate) fn write(&mut self, pc: u64, bytes: &[u8]) -> Result<usize, RewriteError> {
        let length = bytes.len() as u64;
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
        if self.segments.iter().filter(shares).count() > 1 {
            return Err(no_place);
        }
        let place = usize::try_from(start).map_err(|_| no_place.clone())?;
        self.elf.get_mut(place..place + bytes.len()).ok_or(no_place)?.copy_from_slice(bytes);
        Ok(place)
    }
}
