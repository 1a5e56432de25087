//! Scripts of a few instructions.

use antares_pool::Sealed;

/// `ld a0, 8(sp)`, `lbu a0, 0(a0)`: the first byte of the first argument; reads address 0 without one.
pub(crate) const FIRST_BYTE: [u32; 2] = [0x0081_3503, 0x0005_4503];
/// `lui a1, 256`, `ld a2, 0(a1)`, `addi a3, zero, 1`, `sd a3, 0(a1)`, `add a0, a0, a2`: counts earlier runs
/// at 0x100000, if memory survives.
pub(crate) const COUNT: [u32; 5] = [0x0010_05b7, 0x0005_b603, 0x0010_0693, 0x00d5_b023, 0x00c5_0533];
/// `addi a7, zero, 93`, `ecall`: exits with the code in a0.
pub(crate) const EXIT: [u32; 2] = [0x05d0_0893, 0x0000_0073];
/// `ld a0, 8(sp)`, `lui a7, 1`, `addi a7, a7, -1919`, `ecall`: prints the first argument.
pub(crate) const PRINT: [u32; 4] = [0x0081_3503, 0x0000_18b7, 0x8818_8893, 0x0000_0073];

/// An RV64 executable of `code`.
pub(crate) fn elf(code: &[&[u32]]) -> Sealed {
    Sealed::new("elf", &antares_chain::elf(&code.concat())).unwrap()
}
