//! Scripts of a few instructions.

/// An ELF with one executable segment, which is entered at the first instruction of `code`.
pub(crate) fn of(code: &[u32]) -> Vec<u8> {
    const BASE: u64 = 0x10000;
    let size = 120 + 4 * code.len() as u64;
    let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\xf3\0\x01\0\0\0".to_vec();
    elf.extend([BASE + 120, 64, 0].into_iter().flat_map(u64::to_le_bytes));
    elf.extend([1, 64 | 56 << 16, 1, 0].into_iter().flat_map(u32::to_le_bytes));
    elf.extend([1, 5].into_iter().flat_map(u32::to_le_bytes));
    elf.extend([0, BASE, BASE, size, size, 0x1000].into_iter().flat_map(u64::to_le_bytes));
    elf.extend(code.iter().flat_map(|word| word.to_le_bytes()));
    elf
}
