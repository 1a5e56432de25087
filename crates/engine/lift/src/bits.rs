//! The B extension: Zba, Zbb, Zbc, Zbs.

use antares_ir::{BinaryOp as B, UnaryOp as U, Value};
use antares_program::{Instruction, Op};

use crate::{block::BlockBuilder, instruction::second};

/// Lifts `i` if it belongs to the B extension.
pub(crate) fn lift(b: &mut BlockBuilder, i: &Instruction) -> bool {
    unary(b, i) || inverted(b, i) || shift_add(b, i) || single_bit(b, i) || rotate_word(b, i)
}

fn unary(b: &mut BlockBuilder, i: &Instruction) -> bool {
    let of: fn(&mut BlockBuilder, Value, i64) -> Value = match i.op {
        Op::Clz => |b, x, _| b.unary(U::Clz, x),
        Op::Ctz => |b, x, _| b.unary(U::Ctz, x),
        Op::Cpop => |b, x, _| b.unary(U::Popcount, x),
        Op::Clzw => |b, x, _| {
            let word = b.unary(U::ZextW, x);
            let zeros = b.unary(U::Clz, word);
            b.binary_const(B::Sub, zeros, 32)
        },
        Op::Ctzw => |b, x, _| {
            let word = b.binary_const(B::Or, x, !0xffff_ffff);
            b.unary(U::Ctz, word)
        },
        Op::Cpopw => |b, x, _| {
            let word = b.unary(U::ZextW, x);
            b.unary(U::Popcount, word)
        },
        Op::Orcb => |b, x, _| b.unary(U::OrCombine, x),
        Op::Rev8 => |b, x, _| b.unary(U::ByteSwap, x),
        Op::Sextb => |b, x, _| b.unary(U::SextB, x),
        Op::Sexth => |b, x, _| b.unary(U::SextH, x),
        Op::Zexth => |b, x, _| b.unary(U::ZextH, x),
        Op::Slliuw => |b, x, distance| {
            let word = b.unary(U::ZextW, x);
            b.binary_const(B::Shl, word, distance)
        },
        _ => return false,
    };
    let x = b.get(i.rs1);
    let value = of(b, x, i.imm);
    b.set(i.rd, value);
    true
}

fn inverted(b: &mut BlockBuilder, i: &Instruction) -> bool {
    let op = match i.op {
        Op::Andn => B::And,
        Op::Orn => B::Or,
        Op::Xnor => B::Xor,
        _ => return false,
    };
    let (x, y) = (b.get(i.rs1), b.get(i.rs2));
    let y = b.unary(U::Not, y);
    b.set_binary(i.rd, op, x, y);
    true
}

fn shift_add(b: &mut BlockBuilder, i: &Instruction) -> bool {
    let (distance, is_word) = match i.op {
        Op::Adduw => (0, true),
        Op::Sh1add => (1, false),
        Op::Sh2add => (2, false),
        Op::Sh3add => (3, false),
        Op::Sh1adduw => (1, true),
        Op::Sh2adduw => (2, true),
        Op::Sh3adduw => (3, true),
        _ => return false,
    };
    let (mut x, y) = (b.get(i.rs1), b.get(i.rs2));
    if is_word {
        x = b.unary(U::ZextW, x);
    }
    let shifted = b.binary_const(B::Shl, x, distance);
    b.set_binary(i.rd, B::Add, shifted, y);
    true
}

fn single_bit(b: &mut BlockBuilder, i: &Instruction) -> bool {
    let combine = match i.op {
        Op::Bclr | Op::Bclri => None,
        Op::Bext | Op::Bexti => return bit_extract(b, i),
        Op::Binv | Op::Binvi => Some(B::Xor),
        Op::Bset | Op::Bseti => Some(B::Or),
        _ => return false,
    };
    let x = b.get(i.rs1);
    let one = b.constant(1);
    let index = second(b, i);
    let bit = b.binary(B::Shl, one, index);
    let value = match combine {
        Some(op) => b.binary(op, x, bit),
        None => {
            let others = b.unary(U::Not, bit);
            b.binary(B::And, x, others)
        }
    };
    b.set(i.rd, value);
    true
}

fn bit_extract(b: &mut BlockBuilder, i: &Instruction) -> bool {
    let x = b.get(i.rs1);
    let index = second(b, i);
    let shifted = b.binary(B::Lshr, x, index);
    let value = b.binary_const(B::And, shifted, 1);
    b.set(i.rd, value);
    true
}

/// Rotates the low word with two shifts, which LLVM combines into a 32-bit rotation.
fn rotate_word(b: &mut BlockBuilder, i: &Instruction) -> bool {
    let (there, back) = match i.op {
        Op::Rolw => (B::Shl, B::Lshr),
        Op::Rorw | Op::Roriw => (B::Lshr, B::Shl),
        _ => return false,
    };
    let x = b.get(i.rs1);
    let low = b.unary(U::ZextW, x);
    let (distance, rest) = if i.op == Op::Roriw {
        (b.constant(i.imm & 31), b.constant(32 - (i.imm & 31)))
    } else {
        let y = b.get(i.rs2);
        let distance = b.binary_const(B::And, y, 31);
        let all = b.constant(32);
        (distance, b.binary(B::Sub, all, distance))
    };
    let (out, around) = (b.binary(there, low, distance), b.binary(back, low, rest));
    let value = b.binary(B::Or, out, around);
    b.set_word(i.rd, value);
    true
}
