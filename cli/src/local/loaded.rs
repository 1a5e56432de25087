//! The part of an ELF that the VM loads. Debug data and names after it can be many times as long.

/// Bytes of an ELF header of 64 bits.
const HEADER_BYTES: usize = 64;
/// Bytes of a program header.
const ENTRY_BYTES: usize = 56;
/// A segment that is loaded.
const LOAD: u32 = 1;
/// Fields of the header about sections: their offset, their number, and the index of their names.
const SECTIONS: [std::ops::Range<usize>; 2] = [40..48, 60..64];

/// `elf` up to the end of its loaded part, without sections; none if it is not a valid 64-bit ELF.
pub(crate) fn loaded_part(elf: &[u8]) -> Option<Vec<u8>> {
    let half = |at: usize| Some(u16::from_le_bytes(*elf.get(at..)?.first_chunk()?));
    let word = |at: usize| Some(u32::from_le_bytes(*elf.get(at..)?.first_chunk()?));
    let long = |at: usize| usize::try_from(u64::from_le_bytes(*elf.get(at..)?.first_chunk()?)).ok();
    if !elf.starts_with(b"\x7fELF\x02\x01") || half(54)? != u16::try_from(ENTRY_BYTES).ok()? {
        return None;
    }
    let (first, count) = (long(32)?, usize::from(half(56)?));
    let mut end = first.checked_add(count.checked_mul(ENTRY_BYTES)?)?.max(HEADER_BYTES);
    for index in 0..count {
        let entry = first.checked_add(index * ENTRY_BYTES)?;
        if word(entry)? == LOAD {
            end = end.max(long(entry + 8)?.checked_add(long(entry + 32)?)?);
        }
    }
    let mut part = elf.get(..end)?.to_vec();
    SECTIONS.into_iter().for_each(|range| part[range].fill(0));
    Some(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_loaded_is_left_out() {
        let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\xf3\0\x01\0\0\0".to_vec();
        elf.extend([0x10078_u64, 64, 9999].map(u64::to_le_bytes).concat());
        elf.extend([0_u16, 0, 64, 56, 1, 64, 7, 8].map(u16::to_le_bytes).concat());
        elf.extend([1_u32, 5].map(u32::to_le_bytes).concat());
        elf.extend([0, 0x10000, 0x10000, 124, 124, 0x1000_u64].map(u64::to_le_bytes).concat());
        elf.extend([0x73, 0, 0, 0]);
        let mut long = elf.clone();
        long.resize(9999, 7);
        let part = loaded_part(&long).unwrap();
        assert_eq!((part.len(), &part[64..]), (124, &elf[64..]));
        assert_eq!((&part[40..48], &part[60..64]), ([0; 8].as_slice(), [0; 4].as_slice()));
        // Too short, of another kind, and empty.
        assert_eq!(loaded_part(&elf[..123]), None);
        assert_eq!(loaded_part(&[0; 200]), None);
        assert_eq!(loaded_part(b""), None);
        elf[56] = 255;
        assert_eq!(loaded_part(&elf), None);
    }
}
