//! Register values that are known along one straight line: where recovery reads addresses of code from. What
//! ckb-vm's decoder has fused is followed as what it was fused of, so that the same code is found in all VM
//! versions.

use crate::{Instruction, Op, Reg};

/// Register values that are known along one straight line.
pub(crate) struct Line {
    constants: [Option<u64>; 32],
    /// What the value is a sum of, without a load.
    sums: [Option<Sum>; 32],
    /// A number that the value is a multiple of; 1 if nothing is known, 0 if it was loaded, as distances in
    /// tables of words are.
    factors: [u64; 32],
    /// The address that the value was computed from: it is near, or was loaded from there.
    origins: [Option<u64>; 32],
}

/// A number that code says, and an unknown multiple of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sum {
    /// The number that code says.
    pub(crate) base: u64,
    /// What is added is a multiple of this.
    pub(crate) factor: u64,
    /// It is taken away.
    pub(crate) is_below: bool,
}

impl Sum {
    /// Nothing is known to be added to it.
    pub(crate) fn alone(base: u64) -> Self {
        Self { base, factor: 1, is_below: false }
    }

    /// The same, `by` further.
    pub(crate) fn moved(self, by: i64) -> Self {
        Self { base: self.base.wrapping_add_signed(by), ..self }
    }
}

fn sign_extend_word(value: u64) -> u64 {
    ((value << 32).cast_signed() >> 32).cast_unsigned()
}

/// The greatest common divisor; 0 is a multiple of all numbers.
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

    /// Follows what `instruction` at `pc` writes; a finished address (not a bare upper part) is returned.
    pub(crate) fn step(&mut self, pc: u64, instruction: &Instruction) -> Option<u64> {
        let Instruction { op, rd, rs1, rs2, imm, .. } = *instruction;
        let source = self.constants[rs1.index()];
        let (value, is_finished) = match op {
            Op::Lui => (Some(imm.cast_unsigned()), false),
            Op::Auipc => (Some(pc.wrapping_add_signed(imm)), false),
            Op::LoadImm | Op::LoadUimm => (Some(imm.cast_unsigned()), true),
            Op::Addi => (source.map(|value| value.wrapping_add_signed(imm)), true),
            Op::Addiw => (source.map(|value| sign_extend_word(value.wrapping_add_signed(imm))), true),
            // The compressed `mv` is one.
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

    /// What an instruction adds: two registers, and by what the first one is multiplied before.
    fn addends(&self, instruction: &Instruction) -> Option<(Reg, Reg, u64)> {
        let Instruction { op, rd, rs1, rs2, .. } = *instruction;
        match op {
            // The first thing that these do is an addition.
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
        // What is known, or was a sum of something that is.
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
            // Of two sums the higher one has the address.
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

    /// The value of a register, if the line says it.
    pub(crate) fn constant(&self, register: Reg) -> Option<u64> {
        self.constants[register.index()]
    }

    /// What the value of a register, which the line does not say, is a sum of.
    pub(crate) fn sum_in(&self, register: Reg) -> Option<Sum> {
        self.sums[register.index()]
    }

    /// The address that a register's value was computed from, if the line says so.
    pub(crate) fn origin(&self, register: Reg) -> Option<u64> {
        self.origins[register.index()]
    }

    /// Where `jalr` goes, if the line says so. In VM version 0 one that writes its own operand goes elsewhere
    /// (ckb-vm issue 92).
    pub(crate) fn jump_target(&self, instruction: &Instruction, vm_version: u32) -> Option<u64> {
        let Instruction { rd, rs1, imm, .. } = *instruction;
        let base = self.constants[rs1.index()]?;
        let is_plain = vm_version > 0 || rd != rs1 || rd == Reg::ZERO;
        is_plain.then_some(base.wrapping_add_signed(imm) & !1)
    }
}
