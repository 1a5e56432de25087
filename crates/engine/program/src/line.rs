//! Tracks known register values along straight-line code, from which recovery reads code addresses. Follows
//! the parts of fused instructions, so that all VM versions find the same code.

use crate::{Instruction, Op, Reg};

/// Known register values along straight-line code.
pub(crate) struct Line {
    constants: [Option<u64>; 32],
    /// Sums that registers hold, computed without a load.
    sums: [Option<Sum>; 32],
    /// By register: a number that divides its value. 1 if nothing is known. 0 if the value was loaded, such
    /// as a distance from a table of words.
    factors: [u64; 32],
    /// The address from which the value was computed, nearby or by a load.
    origins: [Option<u64>; 32],
}

/// The sum of a known number and an unknown multiple of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sum {
    /// The known number.
    pub(crate) base: u64,
    /// The addend is a multiple of this.
    pub(crate) factor: u64,
    /// Whether the addend is subtracted.
    pub(crate) is_below: bool,
}

impl Sum {
    /// A sum without a known addend.
    pub(crate) fn alone(base: u64) -> Self {
        Self { base, factor: 1, is_below: false }
    }

    /// The sum plus `by`.
    pub(crate) fn moved(self, by: i64) -> Self {
        Self { base: self.base.wrapping_add_signed(by), ..self }
    }
}

fn sign_extend_word(value: u64) -> u64 {
    ((value << 32).cast_signed() >> 32).cast_unsigned()
}

/// The greatest common divisor. Every number divides 0.
fn common(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl Line {
    pub(crate) fn new() -> Self {
        let mut constants = [None; 32];
        constants[0] = Some(0);
        Self { constants, sums: [None; 32], factors: [1; 32], origins: [None; 32] }
    }

    /// Applies the effect of `instruction` at `pc`. Returns a complete address, not a bare upper part.
    pub(crate) fn step(&mut self, pc: u64, instruction: &Instruction) -> Option<u64> {
        let Instruction { op, rd, rs1, rs2, imm, .. } = *instruction;
        let source = self.constants[rs1.index()];
        let (value, is_finished) = match op {
            Op::Lui => (Some(imm.cast_unsigned()), false),
            Op::Auipc => (Some(pc.wrapping_add_signed(imm)), false),
            Op::LoadImm | Op::LoadUimm => (Some(imm.cast_unsigned()), true),
            Op::Addi => (source.map(|value| value.wrapping_add_signed(imm)), true),
            Op::Addiw => (source.map(|value| sign_extend_word(value.wrapping_add_signed(imm))), true),
            // The compressed `mv` decodes to this.
            Op::Add => (source.and_then(|x| Some(x.wrapping_add(self.constants[rs2.index()]?))), false),
            _ => (None, false),
        };
        let (sum, factor) = (self.sum(instruction), self.factor(instruction));
        let finished = value.filter(|_| is_finished);
        let is_load = matches!(op, Op::Lw | Op::Lwu | Op::Ld);
        let is_sum = op == Op::Addi || self.addends(instruction).is_some() || op == Op::Sub;
        let origin = self.origins[rs1.index()].or(self.origins[rs2.index()]).filter(|_| is_sum || is_load);
        if instruction.is_fused() {
            [rs1, rs2, instruction.rs3].into_iter().for_each(|operand| self.forget(operand));
        }
        self.origins[rd.index()] = finished.filter(|_| op != Op::Addi || rs1 != Reg::ZERO).or(origin);
        self.constants[rd.index()] = value;
        (self.sums[rd.index()], self.factors[rd.index()]) = (sum, factor);
        (self.constants[0], self.sums[0], self.factors[0]) = (Some(0), None, 1);
        finished.filter(|_| rd != Reg::ZERO)
    }

    fn forget(&mut self, register: Reg) {
        let index = register.index();
        (self.constants[index], self.sums[index], self.factors[index]) = (None, None, 1);
    }

    /// The two registers that an instruction adds, and the factor of the first.
    fn addends(&self, instruction: &Instruction) -> Option<(Reg, Reg, u64)> {
        let Instruction { op, rd, rs1, rs2, .. } = *instruction;
        match op {
            // These fusions begin with an addition.
            Op::Add | Op::Adcs | Op::Add3b | Op::Add3c => Some((rs1, rs2, 1)),
            Op::Add3a => Some((rd, rs1, 1)),
            Op::Adduw => Some((rs1, rs2, 1)),
            Op::Sh1add | Op::Sh1adduw => Some((rs1, rs2, 2)),
            Op::Sh2add | Op::Sh2adduw => Some((rs1, rs2, 4)),
            Op::Sh3add | Op::Sh3adduw => Some((rs1, rs2, 8)),
            _ => None,
        }
    }

    fn sum(&self, instruction: &Instruction) -> Option<Sum> {
        let Instruction { op, rs1, rs2, imm, .. } = *instruction;
        // A constant, or a sum that contains one.
        let base = |register: Reg| match self.constants[register.index()] {
            Some(base) => Some(Sum { base, factor: 0, is_below: false }),
            None => self.sums[register.index()],
        };
        let beside = |of: Reg, other: Reg, times: u64| {
            let of = base(of).filter(|_| self.factors[other.index()] > 0)?;
            let factor = common(of.factor, self.factors[other.index()].wrapping_mul(times));
            match self.constants[other.index()] {
                Some(number) if times == 1 => Some(of.moved(number.cast_signed())),
                _ => Some(Sum { factor, ..of }),
            }
        };
        if let Some((first, second, times)) = self.addends(instruction) {
            let swapped = if times == 1 { beside(first, second, 1) } else { None };
            // The sum with the higher base contains the address.
            let sums = [beside(second, first, times), swapped].into_iter().flatten();
            return sums.filter(|sum| sum.factor > 0).max_by_key(|sum| sum.base);
        }
        match op {
            Op::Addi => base(rs1).map(|sum| sum.moved(imm)),
            Op::Sub => beside(rs1, rs2, 1).map(|sum| Sum { is_below: true, ..sum }),
            _ => None,
        }
        .filter(|sum| sum.factor > 0)
    }

    fn factor(&self, instruction: &Instruction) -> u64 {
        let Instruction { op, rs1, rs2, imm, .. } = *instruction;
        let of = |register: Reg| match self.constants[register.index()] {
            Some(number) => number,
            None => self.factors[register.index()].max(1),
        };
        if matches!(op, Op::Lw | Op::Lwu | Op::Ld | Op::Lh | Op::Lhu) {
            return 0;
        }
        match op {
            Op::Slli | Op::Slliw | Op::Slliuw => {
                u32::try_from(imm).ok().and_then(|by| of(rs1).checked_shl(by))
            }
            Op::Andi if imm < 0 => Some(1 << imm.trailing_zeros().min(63)),
            Op::Mul | Op::Mulw => of(rs1).checked_mul(of(rs2)),
            Op::Addi => Some(common(of(rs1), imm.unsigned_abs())),
            Op::Sub => Some(common(of(rs1), of(rs2))),
            _ => self.addends(instruction).map(|(x, y, times)| common(of(x).wrapping_mul(times), of(y))),
        }
        .filter(|factor| *factor > 0)
        .unwrap_or(1)
    }

    /// The value of a register, if known.
    pub(crate) fn constant(&self, register: Reg) -> Option<u64> {
        self.constants[register.index()]
    }

    /// The known sum that a register holds, if its value is not constant.
    pub(crate) fn sum_in(&self, register: Reg) -> Option<Sum> {
        self.sums[register.index()]
    }

    /// The address from which a register's value was computed, if known.
    pub(crate) fn origin(&self, register: Reg) -> Option<u64> {
        self.origins[register.index()]
    }

    /// The target of `jalr`, if known. In VM version 0, a `jalr` that writes its own operand goes elsewhere
    /// (ckb-vm issue 92).
    pub(crate) fn jump_target(&self, instruction: &Instruction, vm_version: u32) -> Option<u64> {
        let Instruction { rd, rs1, imm, .. } = *instruction;
        let base = self.constants[rs1.index()]?;
        let is_plain = vm_version > 0 || rd != rs1 || rd == Reg::ZERO;
        is_plain.then_some(base.wrapping_add_signed(imm) & !1)
    }
}
