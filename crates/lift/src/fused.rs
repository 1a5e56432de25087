//! Macro-operation fusions: what ckb-vm's decoder makes one instruction of. Operands are read and written in the
//! order of ckb-vm's `handle_*` functions, so that shared registers come out the same.

use antares_ir::{BinaryOp as B, Value};
use antares_program::{Instruction, Op};

use crate::block::BlockBuilder;

/// Lifts `i` if it is a fusion.
pub(crate) fn lift(b: &mut BlockBuilder, i: &Instruction) -> bool {
    match i.op {
        Op::WideMul => wide(b, i, B::MulHigh, B::Mul),
        Op::WideMulu => wide(b, i, B::MulHighUnsigned, B::Mul),
        Op::WideMulsu => wide(b, i, B::MulHighSignedUnsigned, B::Mul),
        Op::WideDiv => wide(b, i, B::Div, B::Rem),
        Op::WideDivu => wide(b, i, B::DivUnsigned, B::RemUnsigned),
        Op::Adc => adc(b, i),
        Op::Sbb => sbb(b, i),
        Op::Adcs => adcs(b, i),
        Op::Sbbs => sbbs(b, i),
        Op::Add3a => add3a(b, i),
        Op::Add3b => add3b(b, i),
        Op::Add3c => add3c(b, i),
        _ => return false,
    }
    true
}

fn wide(b: &mut BlockBuilder, i: &Instruction, first: B, second: B) {
    let (x, y) = (b.get(i.rs1), b.get(i.rs2));
    let (first, second) = (b.binary(first, x, y), b.binary(second, x, y));
    b.set(i.rd, first);
    b.set(i.rs3, second);
}

fn carry(b: &mut BlockBuilder, sum: Value, part: Value) -> Value {
    b.binary(B::LtUnsigned, sum, part)
}

fn adc(b: &mut BlockBuilder, i: &Instruction) {
    let (x, y) = (b.get(i.rd), b.get(i.rs1));
    let sum = b.binary(B::Add, x, y);
    b.set(i.rd, sum);
    let y = b.get(i.rs1);
    let first = carry(b, sum, y);
    b.set(i.rs1, first);
    let (x, z) = (b.get(i.rd), b.get(i.rs2));
    let sum = b.binary(B::Add, x, z);
    b.set(i.rd, sum);
    let z = b.get(i.rs2);
    let second = carry(b, sum, z);
    b.set(i.rs2, second);
    let (first, second) = (b.get(i.rs1), b.get(i.rs2));
    let either = b.binary(B::Or, first, second);
    b.set(i.rs1, either);
}

fn sbb(b: &mut BlockBuilder, i: &Instruction) {
    let (x, y) = (b.get(i.rd), b.get(i.rs1));
    let difference = b.binary(B::Sub, x, y);
    b.set(i.rs1, difference);
    let (x, difference) = (b.get(i.rd), b.get(i.rs1));
    let first = b.binary(B::LtUnsigned, x, difference);
    b.set(i.rs3, first);
    let (difference, z) = (b.get(i.rs1), b.get(i.rs2));
    let rest = b.binary(B::Sub, difference, z);
    b.set(i.rd, rest);
    let (rest, difference) = (b.get(i.rd), b.get(i.rs1));
    let second = b.binary(B::LtUnsigned, difference, rest);
    b.set(i.rs2, second);
    let (second, first) = (b.get(i.rs2), b.get(i.rs3));
    let either = b.binary(B::Or, second, first);
    b.set(i.rs1, either);
}

fn adcs(b: &mut BlockBuilder, i: &Instruction) {
    let (x, y) = (b.get(i.rs1), b.get(i.rs2));
    let sum = b.binary(B::Add, x, y);
    b.set(i.rd, sum);
    let carry = carry(b, sum, x);
    b.set(i.rs3, carry);
}

fn sbbs(b: &mut BlockBuilder, i: &Instruction) {
    let (x, y) = (b.get(i.rs1), b.get(i.rs2));
    let difference = b.binary(B::Sub, x, y);
    b.set(i.rd, difference);
    let borrow = b.binary(B::LtUnsigned, x, y);
    b.set(i.rs3, borrow);
}

fn add3a(b: &mut BlockBuilder, i: &Instruction) {
    let (x, y) = (b.get(i.rd), b.get(i.rs1));
    let sum = b.binary(B::Add, x, y);
    b.set(i.rd, sum);
    let (sum, y) = (b.get(i.rd), b.get(i.rs1));
    let overflow = carry(b, sum, y);
    b.set(i.rs2, overflow);
    let (overflow, z) = (b.get(i.rs2), b.get(i.rs4));
    let total = b.binary(B::Add, overflow, z);
    b.set(i.rs3, total);
}

fn add3b(b: &mut BlockBuilder, i: &Instruction) {
    let (x, y) = (b.get(i.rs1), b.get(i.rs2));
    let sum = b.binary(B::Add, x, y);
    b.set(i.rd, sum);
    let (sum, x) = (b.get(i.rd), b.get(i.rs1));
    let overflow = carry(b, sum, x);
    b.set(i.rs1, overflow);
    let (overflow, z) = (b.get(i.rs1), b.get(i.rs4));
    let total = b.binary(B::Add, overflow, z);
    b.set(i.rs3, total);
}

fn add3c(b: &mut BlockBuilder, i: &Instruction) {
    let (x, y) = (b.get(i.rs1), b.get(i.rs2));
    let sum = b.binary(B::Add, x, y);
    b.set(i.rd, sum);
    let (sum, x, z) = (b.get(i.rd), b.get(i.rs1), b.get(i.rs4));
    let overflow = carry(b, sum, x);
    let total = b.binary(B::Add, overflow, z);
    b.set(i.rs3, total);
}
