//! Encodes instructions: the 32-bit form of each, and the 16-bit form if it exists.

use antares_program::{Instruction, Op};

use crate::checker::state::{Shape, shape};

/// An instruction with its registers, independent of its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) op: Op,
    pub(crate) rd: u8,
    pub(crate) rs1: u8,
    pub(crate) rs2: u8,
    pub(crate) imm: i64,
    /// Its cycles unless it fuses.
    pub(crate) cycles: u64,
    /// Its 32-bit form without registers.
    pub(crate) word: u32,
}

impl Line {
    pub(crate) const NOP: Self = Self { op: Op::Addi, rd: 0, rs1: 0, rs2: 0, imm: 0, cycles: 1, word: 0x13 };

    /// Decodes `instruction` at the start of `bytes`. `None` if windows must not contain it.
    pub(crate) fn of(instruction: &Instruction, bytes: &[u8]) -> Option<Self> {
        let Instruction { op, rd, rs1, rs2, imm, cycles, .. } = *instruction;
        let word = match instruction.length {
            4 => u32::from_le_bytes(*bytes.first_chunk()?),
            _ => expanded(op, imm)?,
        };
        let registers = match shape(op)? {
            Shape::Two => 0x01ff_8f80,
            Shape::One | Shape::Load => 0x000f_8f80,
            Shape::Number => 0x0f80,
            Shape::Store => 0x01ff_8000,
        };
        // Single-register operations encode a part of the operation in the field of the second register.
        let rs2 = if registers >> 20 == 0 { 0 } else { rs2.0 };
        Some(Self { op, rd: rd.0, rs1: rs1.0, rs2, imm, cycles: cycles.into(), word: word & !registers })
    }

    /// The 32-bit form.
    pub(crate) fn wide(self) -> u32 {
        self.word | u32::from(self.rd) << 7 | u32::from(self.rs1) << 15 | u32::from(self.rs2) << 20
    }
}

/// The 32-bit form, without registers, of an instruction with a 16-bit form.
fn expanded(op: Op, imm: i64) -> Option<u32> {
    let number = low(imm, 12) << 20;
    Some(match op {
        Op::Add => 0x33,
        Op::Sub => 0x4000_0033,
        Op::Xor => 0x4033,
        Op::Or => 0x6033,
        Op::And => 0x7033,
        Op::Addw => 0x3b,
        Op::Subw => 0x4000_003b,
        Op::Addi => 0x13 | number,
        Op::Slli => 0x1013 | number,
        Op::Srli => 0x5013 | number,
        Op::Srai => 0x4000_5013 | number,
        Op::Andi => 0x7013 | number,
        Op::Addiw => 0x1b | number,
        Op::Lui => 0x37 | low(imm, 32) & 0xffff_f000,
        Op::Lw => 0x2003 | number,
        Op::Ld => 0x3003 | number,
        Op::Sw | Op::Sd => {
            let size = if op == Op::Sw { 0x2000 } else { 0x3000 };
            low(imm >> 5, 7) << 25 | low(imm, 5) << 7 | size | 0x23
        }
        _ => return None,
    })
}

/// The lower bits of `imm`, as encoded.
fn low(imm: i64, bits: u32) -> u32 {
    u32::try_from(imm.cast_unsigned() & ((1 << bits) - 1)).unwrap_or(0)
}

/// Number of a register that short forms support.
fn near(register: u8) -> Option<u32> {
    (8..16).contains(&register).then(|| u32::from(register - 8))
}

/// The 16-bit form, if it exists.
pub(crate) fn short(line: Line) -> Option<u16> {
    let Line { op, rd, rs1, rs2, imm, .. } = line;
    let bits = |from: u32, count: u32| low(imm >> from, count);
    let six = bits(5, 1) << 12 | bits(0, 5) << 2;
    let fits_six = (-32..32).contains(&imm);
    let (at_rd, at_rs2) = (u32::from(rd) << 7, u32::from(rs2) << 2);
    let in_place = rd == rs1 && rd != 0;
    let word = match op {
        Op::Addi if rd == 2 && rs1 == 2 && imm != 0 && imm % 16 == 0 && (-512..512).contains(&imm) => {
            let parts =
                bits(9, 1) << 12 | bits(4, 1) << 6 | bits(6, 1) << 5 | bits(7, 2) << 3 | bits(5, 1) << 2;
            0x6101 | parts
        }
        Op::Addi if rs1 == 2 && imm > 0 && imm < 1024 && imm % 4 == 0 && near(rd).is_some() => {
            let parts = bits(4, 2) << 11 | bits(6, 4) << 7 | bits(2, 1) << 6 | bits(3, 1) << 5;
            parts | near(rd)? << 2
        }
        Op::Addi if in_place && imm != 0 && fits_six => 0x0001 | six | at_rd,
        Op::Addi if rd != 0 && rs1 == 0 && fits_six => 0x4001 | six | at_rd,
        Op::Addiw if in_place && fits_six => 0x2001 | six | at_rd,
        Op::Lui if rd != 0 && rd != 2 && imm != 0 && (-32..32).contains(&(imm >> 12)) => {
            0x6001 | low(imm >> 17, 1) << 12 | low(imm >> 12, 5) << 2 | at_rd
        }
        Op::Slli if in_place && imm != 0 => 0x0002 | six | at_rd,
        Op::Srli | Op::Srai if in_place && imm != 0 => {
            0x8001 | u32::from(op == Op::Srai) << 10 | six | near(rd)? << 7
        }
        Op::Andi if in_place && fits_six => 0x8801 | six | near(rd)? << 7,
        Op::Sub | Op::Xor | Op::Or | Op::And | Op::Subw | Op::Addw if in_place => {
            let which = match op {
                Op::Sub => 0x8c01,
                Op::Xor => 0x8c21,
                Op::Or => 0x8c41,
                Op::And => 0x8c61,
                Op::Subw => 0x9c01,
                _ => 0x9c21,
            };
            which | near(rd)? << 7 | near(rs2)? << 2
        }
        Op::Add if rd != 0 && rs1 == 0 && rs2 != 0 => 0x8002 | at_rd | at_rs2,
        Op::Add if in_place && rs2 != 0 => 0x9002 | at_rd | at_rs2,
        Op::Lw | Op::Ld | Op::Sw | Op::Sd => short_memory(line)?,
        _ => return None,
    };
    u16::try_from(word).ok()
}

fn short_memory(line: Line) -> Option<u32> {
    let Line { op, rd, rs1, rs2, imm, .. } = line;
    let bits = |from: u32, count: u32| low(imm >> from, count);
    let (is_word, is_load) = (matches!(op, Op::Lw | Op::Sw), matches!(op, Op::Lw | Op::Ld));
    let size = if is_word { 4 } else { 8 };
    let funct3 = u32::from(!is_load) << 15 | 0x4000 | u32::from(!is_word) << 13;
    if imm < 0 || imm % size != 0 {
        return None;
    }
    if rs1 == 2 && imm < 64 * size && (!is_load || rd != 0) {
        let parts = match (is_word, is_load) {
            (true, true) => bits(5, 1) << 12 | bits(2, 3) << 4 | bits(6, 2) << 2,
            (false, true) => bits(5, 1) << 12 | bits(3, 2) << 5 | bits(6, 3) << 2,
            (true, false) => bits(2, 4) << 9 | bits(6, 2) << 7,
            (false, false) => bits(3, 3) << 10 | bits(6, 3) << 7,
        };
        let register = if is_load { u32::from(rd) << 7 } else { u32::from(rs2) << 2 };
        return Some(funct3 | parts | register | 2);
    }
    let register = near(if is_load { rd } else { rs2 })?;
    let parts = if is_word {
        bits(3, 3) << 10 | bits(2, 1) << 6 | bits(6, 1) << 5
    } else {
        bits(3, 3) << 10 | bits(6, 2) << 5
    };
    (imm < 32 * size).then_some(funct3 | parts | near(rs1)? << 7 | register << 2)
}
