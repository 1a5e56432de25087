//! Tables of instructions: operations without jumps and memory accesses, and loads, stores and atomics.

use antares_abi::Isa;

use super::{Register, encode};
use Shape::{Immediate, Registers, Shift5, Shift6, Unary, Upper};

/// The fields of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// rd, rs1, rs2.
    Registers,
    /// rd, rs1; rs2's field is part of the opcode.
    Unary(u8),
    /// rd, rs1, a signed 12-bit immediate.
    Immediate,
    /// rd, rs1, a shift of 0 to 63.
    Shift6,
    /// rd, rs1, a shift of 0 to 31.
    Shift5,
    /// rd, the upper 20 bits.
    Upper,
}

/// An operation on registers.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    /// Its name in the manual.
    pub name: &'static str,
    opcode: u32,
    funct3: u32,
    funct7: u32,
    /// Its fields.
    pub shape: Shape,
    /// Its extension.
    pub isa: Isa,
}

impl Operation {
    /// Encodes the operation; ignores operands that the shape does not have.
    #[must_use]
    pub fn encode(&self, rd: Register, rs1: Register, rs2: Register, immediate: i32) -> u32 {
        let shifted = |bits: i32| (self.funct7 << 5).cast_signed() | (immediate & bits);
        match self.shape {
            Registers => encode::r(self.opcode, self.funct3, self.funct7, rd, rs1, rs2),
            Unary(code) => encode::r(self.opcode, self.funct3, self.funct7, rd, rs1, code),
            Immediate => encode::i(self.opcode, self.funct3, rd, rs1, immediate),
            Shift6 => encode::i(self.opcode, self.funct3, rd, rs1, shifted(63)),
            Shift5 => encode::i(self.opcode, self.funct3, rd, rs1, shifted(31)),
            Upper => encode::u(self.opcode, rd, (immediate << 12).cast_unsigned()),
        }
    }
}

const fn of(isa: Isa, name: &'static str, codes: [u32; 3], shape: Shape) -> Operation {
    Operation { name, opcode: codes[0], funct3: codes[1], funct7: codes[2], shape, isa }
}

const fn base(name: &'static str, codes: [u32; 3], shape: Shape) -> Operation {
    of(Isa::IMC, name, codes, shape)
}

const fn bits(name: &'static str, codes: [u32; 3], shape: Shape) -> Operation {
    of(Isa::B, name, codes, shape)
}

/// All operations on registers of RV64IM and of Zba, Zbb, Zbc, Zbs.
pub const OPERATIONS: [Operation; 86] = [
    base("lui", [0x37, 0, 0], Upper),
    base("auipc", [0x17, 0, 0], Upper),
    base("addi", [0x13, 0, 0], Immediate),
    base("slti", [0x13, 2, 0], Immediate),
    base("sltiu", [0x13, 3, 0], Immediate),
    base("xori", [0x13, 4, 0], Immediate),
    base("ori", [0x13, 6, 0], Immediate),
    base("andi", [0x13, 7, 0], Immediate),
    base("slli", [0x13, 1, 0], Shift6),
    base("srli", [0x13, 5, 0], Shift6),
    base("srai", [0x13, 5, 0x20], Shift6),
    base("addiw", [0x1b, 0, 0], Immediate),
    base("slliw", [0x1b, 1, 0], Shift5),
    base("srliw", [0x1b, 5, 0], Shift5),
    base("sraiw", [0x1b, 5, 0x20], Shift5),
    base("add", [0x33, 0, 0], Registers),
    base("sub", [0x33, 0, 0x20], Registers),
    base("sll", [0x33, 1, 0], Registers),
    base("slt", [0x33, 2, 0], Registers),
    base("sltu", [0x33, 3, 0], Registers),
    base("xor", [0x33, 4, 0], Registers),
    base("srl", [0x33, 5, 0], Registers),
    base("sra", [0x33, 5, 0x20], Registers),
    base("or", [0x33, 6, 0], Registers),
    base("and", [0x33, 7, 0], Registers),
    base("addw", [0x3b, 0, 0], Registers),
    base("subw", [0x3b, 0, 0x20], Registers),
    base("sllw", [0x3b, 1, 0], Registers),
    base("srlw", [0x3b, 5, 0], Registers),
    base("sraw", [0x3b, 5, 0x20], Registers),
    base("mul", [0x33, 0, 1], Registers),
    base("mulh", [0x33, 1, 1], Registers),
    base("mulhsu", [0x33, 2, 1], Registers),
    base("mulhu", [0x33, 3, 1], Registers),
    base("div", [0x33, 4, 1], Registers),
    base("divu", [0x33, 5, 1], Registers),
    base("rem", [0x33, 6, 1], Registers),
    base("remu", [0x33, 7, 1], Registers),
    base("mulw", [0x3b, 0, 1], Registers),
    base("divw", [0x3b, 4, 1], Registers),
    base("divuw", [0x3b, 5, 1], Registers),
    base("remw", [0x3b, 6, 1], Registers),
    base("remuw", [0x3b, 7, 1], Registers),
    bits("add.uw", [0x3b, 0, 4], Registers),
    bits("sh1add", [0x33, 2, 0x10], Registers),
    bits("sh2add", [0x33, 4, 0x10], Registers),
    bits("sh3add", [0x33, 6, 0x10], Registers),
    bits("sh1add.uw", [0x3b, 2, 0x10], Registers),
    bits("sh2add.uw", [0x3b, 4, 0x10], Registers),
    bits("sh3add.uw", [0x3b, 6, 0x10], Registers),
    bits("slli.uw", [0x1b, 1, 4], Shift6),
    bits("andn", [0x33, 7, 0x20], Registers),
    bits("orn", [0x33, 6, 0x20], Registers),
    bits("xnor", [0x33, 4, 0x20], Registers),
    bits("clz", [0x13, 1, 0x30], Unary(0)),
    bits("ctz", [0x13, 1, 0x30], Unary(1)),
    bits("cpop", [0x13, 1, 0x30], Unary(2)),
    bits("sext.b", [0x13, 1, 0x30], Unary(4)),
    bits("sext.h", [0x13, 1, 0x30], Unary(5)),
    bits("clzw", [0x1b, 1, 0x30], Unary(0)),
    bits("ctzw", [0x1b, 1, 0x30], Unary(1)),
    bits("cpopw", [0x1b, 1, 0x30], Unary(2)),
    bits("zext.h", [0x3b, 4, 4], Unary(0)),
    bits("orc.b", [0x13, 5, 0x14], Unary(7)),
    bits("rev8", [0x13, 5, 0x35], Unary(0x18)),
    bits("min", [0x33, 4, 5], Registers),
    bits("minu", [0x33, 5, 5], Registers),
    bits("max", [0x33, 6, 5], Registers),
    bits("maxu", [0x33, 7, 5], Registers),
    bits("rol", [0x33, 1, 0x30], Registers),
    bits("ror", [0x33, 5, 0x30], Registers),
    bits("rolw", [0x3b, 1, 0x30], Registers),
    bits("rorw", [0x3b, 5, 0x30], Registers),
    bits("rori", [0x13, 5, 0x30], Shift6),
    bits("roriw", [0x1b, 5, 0x30], Shift5),
    bits("clmul", [0x33, 1, 5], Registers),
    bits("clmulh", [0x33, 3, 5], Registers),
    bits("clmulr", [0x33, 2, 5], Registers),
    bits("bclr", [0x33, 1, 0x24], Registers),
    bits("bext", [0x33, 5, 0x24], Registers),
    bits("binv", [0x33, 1, 0x34], Registers),
    bits("bset", [0x33, 1, 0x14], Registers),
    bits("bclri", [0x13, 1, 0x24], Shift6),
    bits("bexti", [0x13, 5, 0x24], Shift6),
    bits("binvi", [0x13, 1, 0x34], Shift6),
    bits("bseti", [0x13, 1, 0x14], Shift6),
];

/// Loads: `funct3` and the bytes loaded.
pub const LOADS: [(u32, u8); 7] = [(0, 1), (1, 2), (2, 4), (3, 8), (4, 1), (5, 2), (6, 4)];

/// Stores: `funct3` and the bytes stored.
pub const STORES: [(u32, u8); 4] = [(0, 1), (1, 2), (2, 4), (3, 8)];

/// Upper five bits of `funct7` of the A extension's operations; 2 is lr, 3 is sc.
pub const ATOMICS: [u32; 11] = [2, 3, 1, 0, 4, 12, 8, 16, 20, 24, 28];

/// A load.
#[must_use]
pub fn load(funct3: u32, rd: Register, base: Register, offset: i32) -> u32 {
    encode::i(3, funct3, rd, base, offset)
}

/// An atomic operation on a word, or a doubleword if `wide`.
#[must_use]
pub fn atomic(funct5: u32, wide: bool, rd: Register, base: Register, rs2: Register) -> u32 {
    let rs2 = if funct5 == 2 { 0 } else { rs2 };
    encode::r(0x2f, if wide { 3 } else { 2 }, funct5 << 2, rd, base, rs2)
}

/// The operation with this name.
///
/// # Panics
/// The name is unknown.
#[must_use]
pub fn named(name: &str) -> Operation {
    let found = OPERATIONS.into_iter().find(|operation| operation.name == name);
    found.unwrap_or_else(|| panic!("no operation is named {name:?}"))
}
