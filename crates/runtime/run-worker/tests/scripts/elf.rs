//! The smallest ELF file.

/// Guest address of the code.
const ENTRY: u64 = 0x1_0000;

/// An RV64 executable of `code`.
pub(crate) fn elf(code: &[u32]) -> Vec<u8> {
    let code: Vec<u8> = code.iter().flat_map(|word| word.to_le_bytes()).collect();
    let length = code.len() as u64;
    let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\xf3\0\x01\0\0\0".to_vec();
    elf.extend([ENTRY, 64, 0].into_iter().flat_map(u64::to_le_bytes));
    elf.extend([0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 64, 0, 0, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0]);
    elf.extend([120, ENTRY, ENTRY, length, length, 1].into_iter().flat_map(u64::to_le_bytes));
    elf.extend(code);
    elf
}
