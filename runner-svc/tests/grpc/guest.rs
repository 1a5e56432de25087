//! Handmade scripts of a few instructions.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use antares_chain::elf;

const A0: u32 = 10;
const A7: u32 = 17;
const ECALL: u32 = 0x73;
/// `jal x0, 0`: an endless loop.
const LOOP: u32 = 0x6f;

/// `addi rd, x0, value` for a value of 12 bits.
const fn li(rd: u32, value: u32) -> u32 {
    (value & 0xfff) << 20 | rd << 7 | 0x13
}

pub fn exits(code: i8) -> Vec<u8> {
    elf(&[li(A7, 93), li(A0, i32::from(code).cast_unsigned()), ECALL])
}

pub fn loops() -> Vec<u8> {
    elf(&[LOOP])
}

/// Exits 0 after `padding` no-ops: scripts of different digests and lengths.
pub fn padded(padding: u32) -> Vec<u8> {
    let mut code = vec![li(0, 0); padding as usize];
    code.extend([li(A7, 93), li(A0, 0), ECALL]);
    elf(&code)
}

/// Counts down from `thousands` times 4096 and exits with 6.
pub fn counts(thousands: u32) -> Vec<u8> {
    let lui = thousands << 12 | A0 << 7 | 0x37;
    let down = 0xfff << 20 | A0 << 15 | A0 << 7 | 0x13;
    // bne a0, x0, -4
    let again = 0xfe05_1ee3;
    elf(&[lui, down, again, li(A7, 93), li(A0, 6), ECALL])
}

/// The same, repeated `times` times.
pub fn counts_again(thousands: u32, times: u32) -> Vec<u8> {
    const A1: u32 = 11;
    let lui = thousands << 12 | A0 << 7 | 0x37;
    let down = |register: u32| 0xfff << 20 | register << 15 | register << 7 | 0x13;
    // bne a0, x0, -4 and bne a1, x0, -16
    let (again, over) = (0xfe05_1ee3, 0xfe05_98e3);
    elf(&[li(A1, times), lui, down(A0), again, down(A1), over, li(A7, 93), li(A0, 6), ECALL])
}
