//! Scripts of a few instructions, made by hand.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

/// Address at which they are loaded.
const BASE: u32 = 0x10000;
/// ELF header and one program header.
const HEADERS: u32 = 64 + 56;

const A0: u32 = 10;
const A7: u32 = 17;
const ECALL: u32 = 0x73;
/// `jal x0, 0`: for ever.
const LOOP: u32 = 0x6f;

/// `addi rd, x0, value` for a value of 12 bits.
const fn li(rd: u32, value: u32) -> u32 {
    (value & 0xfff) << 20 | rd << 7 | 0x13
}

/// Exits with `code`.
pub fn exits(code: i8) -> Vec<u8> {
    script(&[li(A7, 93), li(A0, i32::from(code).cast_unsigned()), ECALL])
}

/// Never ends.
pub fn loops() -> Vec<u8> {
    script(&[LOOP])
}

/// Exits 0 after `padding` instructions that do nothing: scripts of different digests and of some length.
pub fn padded(padding: u32) -> Vec<u8> {
    let mut code = vec![li(0, 0); padding as usize];
    code.extend([li(A7, 93), li(A0, 0), ECALL]);
    script(&code)
}

/// Counts down from `thousands` times 4096 and exits with 6.
pub fn counts(thousands: u32) -> Vec<u8> {
    let lui = thousands << 12 | A0 << 7 | 0x37;
    let down = 0xfff << 20 | A0 << 15 | A0 << 7 | 0x13;
    // bne a0, x0, -4
    let again = 0xfe05_1ee3;
    script(&[lui, down, again, li(A7, 93), li(A0, 6), ECALL])
}

/// The same, some times over.
pub fn counts_again(thousands: u32, times: u32) -> Vec<u8> {
    const A1: u32 = 11;
    let lui = thousands << 12 | A0 << 7 | 0x37;
    let down = |register: u32| 0xfff << 20 | register << 15 | register << 7 | 0x13;
    // bne a0, x0, -4 and bne a1, x0, -16
    let (again, over) = (0xfe05_1ee3, 0xfe05_98e3);
    script(&[li(A1, times), lui, down(A0), again, down(A1), over, li(A7, 93), li(A0, 6), ECALL])
}

/// A script of one executable segment.
fn script(code: &[u32]) -> Vec<u8> {
    let size = u64::from(HEADERS) + code.len() as u64 * 4;
    let mut elf = Vec::new();
    elf.extend([0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    // Type EXEC, machine RISC-V, version, entry, program headers right behind, no sections, flags: compressed
    // code.
    elf.extend([2, 0, 0xf3, 0, 1, 0, 0, 0]);
    elf.extend(u64::from(BASE + HEADERS).to_le_bytes());
    elf.extend(64_u64.to_le_bytes());
    elf.extend(0_u64.to_le_bytes());
    elf.extend(1_u32.to_le_bytes());
    elf.extend([64_u16, 56, 1, 0, 0, 0].map(u16::to_le_bytes).concat());
    // Type LOAD, flags R and X, then offset, address twice, size in file and memory, alignment.
    elf.extend([1_u32, 5].map(u32::to_le_bytes).concat());
    elf.extend([0, BASE.into(), BASE.into(), size, size, 0x1000].map(u64::to_le_bytes).concat());
    elf.extend(code.iter().flat_map(|word| word.to_le_bytes()));
    elf
}
