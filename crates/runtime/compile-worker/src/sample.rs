//! The smallest script, built from bytes: an ELF whose code exits with 0.

/// Guest address of the code.
const ENTRY: u64 = 0x1_0000;
/// `addi a0, zero, 0`, `addi a7, zero, 93`, `ecall`: exit(0).
const CODE: [u32; 3] = [0x0000_0513, 0x05d0_0893, 0x0000_0073];
/// Bytes of the two headers before the code.
const HEADERS_BYTES: u64 = 64 + 56;

/// An RV64 executable with one segment.
#[must_use]
pub fn elf() -> Vec<u8> {
    elf_of(&CODE)
}

/// Like [`elf`], with other `code`.
#[must_use]
pub fn elf_of(code: &[u32]) -> Vec<u8> {
    let code: Vec<u8> = code.iter().copied().flat_map(u32::to_le_bytes).collect();
    let length = code.len() as u64;
    let mut elf = Vec::new();
    // ELF header: 64 bits, little endian, ET_EXEC, EM_RISCV, version 1.
    elf.extend(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\xf3\0\x01\0\0\0");
    for word in [ENTRY, 64, 0] {
        elf.extend(word.to_le_bytes());
    }
    // Flags; sizes and counts: this header, program headers, section headers.
    elf.extend([0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 64, 0, 0, 0, 0, 0]);
    // Program header: PT_LOAD, readable and executable; offset, addresses, sizes, alignment.
    elf.extend([1, 0, 0, 0, 5, 0, 0, 0]);
    for word in [HEADERS_BYTES, ENTRY, ENTRY, length, length, 1] {
        elf.extend(word.to_le_bytes());
    }
    elf.extend(code);
    elf
}
