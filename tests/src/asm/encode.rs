//! Encodings of the base formats: fields in, instruction word out.

use super::Register;

/// Encodes a register in a field.
fn field(register: Register, shift: u32) -> u32 {
    u32::from(register & 31) << shift
}

/// R-type.
#[must_use]
pub fn r(opcode: u32, funct3: u32, funct7: u32, rd: Register, rs1: Register, rs2: Register) -> u32 {
    opcode | field(rd, 7) | funct3 << 12 | field(rs1, 15) | field(rs2, 20) | funct7 << 25
}

/// I-type; uses the immediate's low 12 bits.
#[must_use]
pub fn i(opcode: u32, funct3: u32, rd: Register, rs1: Register, immediate: i32) -> u32 {
    opcode | field(rd, 7) | funct3 << 12 | field(rs1, 15) | (immediate.cast_unsigned() & 0xfff) << 20
}

/// S-type; uses the immediate's low 12 bits.
#[must_use]
pub fn s(funct3: u32, rs1: Register, rs2: Register, immediate: i32) -> u32 {
    let bits = immediate.cast_unsigned();
    0x23 | (bits & 31) << 7 | funct3 << 12 | field(rs1, 15) | field(rs2, 20) | (bits >> 5 & 127) << 25
}

/// B-type; `None` if the distance is out of range.
#[must_use]
pub fn b(funct3: u32, rs1: Register, rs2: Register, distance: i64) -> Option<u32> {
    let bits = within(distance, 13)?;
    let immediate =
        (bits >> 11 & 1) << 7 | (bits >> 1 & 15) << 8 | (bits >> 5 & 63) << 25 | (bits >> 12 & 1) << 31;
    Some(0x63 | funct3 << 12 | field(rs1, 15) | field(rs2, 20) | immediate)
}

/// U-type; uses the immediate's high 20 bits.
#[must_use]
pub fn u(opcode: u32, rd: Register, immediate: u32) -> u32 {
    opcode | field(rd, 7) | (immediate & 0xffff_f000)
}

/// `jal`; `None` if the distance is out of range.
#[must_use]
pub fn jal(rd: Register, distance: i64) -> Option<u32> {
    let bits = within(distance, 21)?;
    let immediate =
        (bits >> 12 & 255) << 12 | (bits >> 11 & 1) << 20 | (bits >> 1 & 1023) << 21 | (bits >> 20 & 1) << 31;
    Some(0x6f | field(rd, 7) | immediate)
}

/// Upper and lower parts of a 32-bit value for `lui`/`auipc` and a following signed 12-bit immediate.
#[must_use]
pub fn split(value: i64) -> Option<(u32, i32)> {
    let value = i32::try_from(value).ok()?;
    let low = value << 20 >> 20;
    Some((value.wrapping_sub(low).cast_unsigned(), low))
}

/// `distance` as bits, if it is even and fits into `width` bits with its sign.
fn within(distance: i64, width: u32) -> Option<u32> {
    let limit = 1_i64 << (width - 1);
    let fits = distance % 2 == 0 && (-limit..limit).contains(&distance);
    fits.then(|| i32::try_from(distance).ok().map(i32::cast_unsigned)).flatten()
}
