//! Instructions to bytes: the 32-bit form of each, and the 16-bit one where there is one.

use antares_program::{Instruction, Op};

/// An instruction with the registers that it names, whatever its length is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) op: Op,
    pub(crate) rd: u8,
    pub(crate) rs1: u8,
    pub(crate) rs2: u8,
    pub(crate) imm: i64,
}

impl Line {
    pub(crate) const NOP: Self = Self { op: Op::Addi, rd: 0, rs1: 0, rs2: 0, imm: 0 };

    pub(crate) fn of(instruction: &Instruction) -> Self {
        let Instruction { op, rd, rs1, rs2, imm, .. } = *instruction;
        // Operations on one register keep a part of their encoding where others have the second one.
        let rs2 = if form(op).is_some_and(|form| !form.has_second()) { 0 } else { rs2.0 };
        Self { op, rd: rd.0, rs1: rs1.0, rs2, imm }
    }
}

/// Where the bits of an operation go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Two registers: opcode, funct3, funct7.
    Two(u32, u32, u32),
    /// One register: opcode, funct3, and the twelve bits that tell which.
    One(u32, u32, u32),
    /// A register and twelve bits of a number: opcode, funct3.
    Number(u32, u32),
    /// A register and a distance to shift: opcode, funct3, the bits above it.
    Shift(u32, u32, u32),
    /// The upper bits of a number.
    Upper(u32),
    /// From memory: funct3.
    Load(u32),
    /// To memory: funct3.
    Store(u32),
}

impl Form {
    pub(crate) fn has_second(self) -> bool {
        matches!(self, Self::Two(..) | Self::Store(_))
    }

    pub(crate) fn is_memory(self) -> bool {
        matches!(self, Self::Load(_) | Self::Store(_))
    }
}

#[allow(clippy::too_many_lines, reason = "a table")]
/// How `op` is written; none for what windows leave alone.
pub(crate) fn form(op: Op) -> Option<Form> {
    use Form::{Load, Number, One, Shift, Store, Two, Upper};
    Some(match op {
        Op::Add => Two(0x33, 0, 0),
        Op::Sub => Two(0x33, 0, 0x20),
        Op::Sll => Two(0x33, 1, 0),
        Op::Slt => Two(0x33, 2, 0),
        Op::Sltu => Two(0x33, 3, 0),
        Op::Xor => Two(0x33, 4, 0),
        Op::Srl => Two(0x33, 5, 0),
        Op::Sra => Two(0x33, 5, 0x20),
        Op::Or => Two(0x33, 6, 0),
        Op::And => Two(0x33, 7, 0),
        Op::Addw => Two(0x3b, 0, 0),
        Op::Subw => Two(0x3b, 0, 0x20),
        Op::Sllw => Two(0x3b, 1, 0),
        Op::Srlw => Two(0x3b, 5, 0),
        Op::Sraw => Two(0x3b, 5, 0x20),
        Op::Mul => Two(0x33, 0, 1),
        Op::Mulh => Two(0x33, 1, 1),
        Op::Mulhsu => Two(0x33, 2, 1),
        Op::Mulhu => Two(0x33, 3, 1),
        Op::Div => Two(0x33, 4, 1),
        Op::Divu => Two(0x33, 5, 1),
        Op::Rem => Two(0x33, 6, 1),
        Op::Remu => Two(0x33, 7, 1),
        Op::Mulw => Two(0x3b, 0, 1),
        Op::Divw => Two(0x3b, 4, 1),
        Op::Divuw => Two(0x3b, 5, 1),
        Op::Remw => Two(0x3b, 6, 1),
        Op::Remuw => Two(0x3b, 7, 1),
        Op::Sh1add => Two(0x33, 2, 0x10),
        Op::Sh2add => Two(0x33, 4, 0x10),
        Op::Sh3add => Two(0x33, 6, 0x10),
        Op::Adduw => Two(0x3b, 0, 4),
        Op::Sh1adduw => Two(0x3b, 2, 0x10),
        Op::Sh2adduw => Two(0x3b, 4, 0x10),
        Op::Sh3adduw => Two(0x3b, 6, 0x10),
        Op::Andn => Two(0x33, 7, 0x20),
        Op::Orn => Two(0x33, 6, 0x20),
        Op::Xnor => Two(0x33, 4, 0x20),
        Op::Min => Two(0x33, 4, 5),
        Op::Minu => Two(0x33, 5, 5),
        Op::Max => Two(0x33, 6, 5),
        Op::Maxu => Two(0x33, 7, 5),
        Op::Rol => Two(0x33, 1, 0x30),
        Op::Ror => Two(0x33, 5, 0x30),
        Op::Rolw => Two(0x3b, 1, 0x30),
        Op::Rorw => Two(0x3b, 5, 0x30),
        Op::Bext => Two(0x33, 5, 0x24),
        Op::Zexth => One(0x3b, 4, 0x080),
        Op::Sextb => One(0x13, 1, 0x604),
        Op::Sexth => One(0x13, 1, 0x605),
        Op::Clz => One(0x13, 1, 0x600),
        Op::Ctz => One(0x13, 1, 0x601),
        Op::Cpop => One(0x13, 1, 0x602),
        Op::Rev8 => One(0x13, 5, 0x6b8),
        Op::Addi => Number(0x13, 0),
        Op::Slti => Number(0x13, 2),
        Op::Sltiu => Number(0x13, 3),
        Op::Xori => Number(0x13, 4),
        Op::Ori => Number(0x13, 6),
        Op::Andi => Number(0x13, 7),
        Op::Addiw => Number(0x1b, 0),
        Op::Slli => Shift(0x13, 1, 0),
        Op::Srli => Shift(0x13, 5, 0),
        Op::Srai => Shift(0x13, 5, 0x400),
        Op::Slliw => Shift(0x1b, 1, 0),
        Op::Srliw => Shift(0x1b, 5, 0),
        Op::Sraiw => Shift(0x1b, 5, 0x400),
        Op::Rori => Shift(0x13, 5, 0x600),
        Op::Roriw => Shift(0x1b, 5, 0x600),
        Op::Slliuw => Shift(0x1b, 1, 0x080),
        Op::Bexti => Shift(0x13, 5, 0x480),
        Op::Lui => Upper(0x37),
        Op::Lb => Load(0),
        Op::Lh => Load(1),
        Op::Lw => Load(2),
        Op::Ld => Load(3),
        Op::Lbu => Load(4),
        Op::Lhu => Load(5),
        Op::Lwu => Load(6),
        Op::Sb => Store(0),
        Op::Sh => Store(1),
        Op::Sw => Store(2),
        Op::Sd => Store(3),
        _ => return None,
    })
}

/// Whether the operands may change places.
pub(crate) fn is_commutative(op: Op) -> bool {
    use Op::{Add, Addw, And, Max, Maxu, Min, Minu, Mul, Mulh, Mulhu, Mulw, Or, Xnor, Xor};
    matches!(op, Add | Addw | And | Or | Xor | Xnor | Mul | Mulh | Mulhu | Mulw | Min | Minu | Max | Maxu)
}

/// The lower bits of `imm`, as an instruction has them.
fn low(imm: i64, bits: u32) -> u32 {
    u32::try_from(imm.cast_unsigned() & ((1 << bits) - 1)).unwrap_or(0)
}

/// The 32-bit form.
pub(crate) fn wide(line: Line) -> Option<u32> {
    let Line { op, rd, rs1, rs2, imm } = line;
    let (rd, rs1, rs2) = (u32::from(rd) << 7, u32::from(rs1) << 15, u32::from(rs2) << 20);
    let fits = (-2048..2048).contains(&imm);
    Some(match form(op)? {
        Form::Two(opcode, funct3, funct7) => funct7 << 25 | rs2 | rs1 | funct3 << 12 | rd | opcode,
        Form::One(opcode, funct3, which) => which << 20 | rs1 | funct3 << 12 | rd | opcode,
        Form::Number(opcode, funct3) if fits => low(imm, 12) << 20 | rs1 | funct3 << 12 | rd | opcode,
        Form::Shift(opcode, funct3, above) if (0..64).contains(&imm) => {
            (above | low(imm, 6)) << 20 | rs1 | funct3 << 12 | rd | opcode
        }
        Form::Upper(opcode) => (low(imm, 32) & 0xffff_f000) | rd | opcode,
        Form::Load(funct3) if fits => low(imm, 12) << 20 | rs1 | funct3 << 12 | rd | 3,
        Form::Store(funct3) if fits => {
            low(imm >> 5, 7) << 25 | rs2 | rs1 | funct3 << 12 | low(imm, 5) << 7 | 0x23
        }
        _ => return None,
    })
}

/// Number of one of the eight registers that short forms can name.
fn near(register: u8) -> Option<u32> {
    (8..16).contains(&register).then(|| u32::from(register - 8))
}

/// The 16-bit form, if there is one.
pub(crate) fn short(line: Line) -> Option<u16> {
    let Line { op, rd, rs1, rs2, imm } = line;
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
    let Line { op, rd, rs1, rs2, imm } = line;
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
