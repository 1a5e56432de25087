//! Lifts guest instructions to operations, by one short rule each. Groups have their own files.
//!
//! The source of every rule is ckb-vm's `instructions/execute.rs`. The differential tests compare the results
//! with ckb-vm.

use antares_ir::{BinaryOp as B, UnaryOp as U, Value, Width};
use antares_program::{GuestAddr, Instruction, Op, Reg};

use crate::block::BlockBuilder;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lifted {
    Done,
    /// The instruction ends the block; the terminator defines its effect.
    Ends,
    /// Native code does not support it.
    Unsupported,
}

pub(crate) fn lift(b: &mut BlockBuilder, pc: GuestAddr, i: &Instruction) -> Lifted {
    if register_register(b, i)
        || register_immediate(b, pc, i)
        || memory(b, i)
        || crate::bits::lift(b, i)
        || crate::fused::lift(b, i)
    {
        return Lifted::Done;
    }
    match i.op {
        Op::Fence | Op::FenceI | Op::Ebreak => Lifted::Done,
        Op::Jal | Op::Jalr | Op::FarJumpRel | Op::FarJumpAbs | Op::Ecall => Lifted::Ends,
        _ if i.is_branch() => Lifted::Ends,
        _ => Lifted::Unsupported,
    }
}

/// `rd = rs1 op rs2`, on 64 bits or words.
fn register_register(b: &mut BlockBuilder, i: &Instruction) -> bool {
    let plain = match i.op {
        Op::Add => B::Add,
        Op::Sub => B::Sub,
        Op::And => B::And,
        Op::Or => B::Or,
        Op::Xor => B::Xor,
        Op::Sll => B::Shl,
        Op::Srl => B::Lshr,
        Op::Sra => B::Ashr,
        Op::Slt => B::Lt,
        Op::Sltu => B::LtUnsigned,
        Op::Mul => B::Mul,
        Op::Mulh => B::MulHigh,
        Op::Mulhsu => B::MulHighSignedUnsigned,
        Op::Mulhu => B::MulHighUnsigned,
        Op::Div => B::Div,
        Op::Divu => B::DivUnsigned,
        Op::Rem => B::Rem,
        Op::Remu => B::RemUnsigned,
        _ => return word_register_register(b, i),
    };
    b.set_of(i.rd, plain, i.rs1, i.rs2);
    true
}

/// Operations on the low words of both operands; the result is sign extended.
fn word_register_register(b: &mut BlockBuilder, i: &Instruction) -> bool {
    let (op, extend) = match i.op {
        Op::Addw => (B::Add, None),
        Op::Subw => (B::Sub, None),
        Op::Mulw => (B::Mul, None),
        Op::Divw => (B::Div, Some(U::SextW)),
        Op::Divuw => (B::DivUnsigned, Some(U::ZextW)),
        Op::Remw => (B::Rem, Some(U::SextW)),
        Op::Remuw => (B::RemUnsigned, Some(U::ZextW)),
        Op::Sllw => return word_shift(b, i, B::Shl, None),
        Op::Srlw => return word_shift(b, i, B::Lshr, Some(U::ZextW)),
        Op::Sraw => return word_shift(b, i, B::Ashr, Some(U::SextW)),
        _ => return false,
    };
    let (mut x, mut y) = (b.get(i.rs1), b.get(i.rs2));
    if let Some(extend) = extend {
        (x, y) = (b.unary(extend, x), b.unary(extend, y));
    }
    let value = b.binary(op, x, y);
    b.set_word(i.rd, value);
    true
}

fn word_shift(b: &mut BlockBuilder, i: &Instruction, op: B, extend: Option<U>) -> bool {
    let (mut x, y) = (b.get(i.rs1), b.get(i.rs2));
    let distance = b.binary_const(B::And, y, 31);
    if let Some(extend) = extend {
        x = b.unary(extend, x);
    }
    let value = b.binary(op, x, distance);
    b.set_word(i.rd, value);
    true
}

/// `rd = rs1 op imm`, and constants.
fn register_immediate(b: &mut BlockBuilder, pc: GuestAddr, i: &Instruction) -> bool {
    let plain = match i.op {
        Op::Addi => B::Add,
        Op::Andi => B::And,
        Op::Ori => B::Or,
        Op::Xori => B::Xor,
        Op::Slli => B::Shl,
        Op::Srli => B::Lshr,
        Op::Srai => B::Ashr,
        Op::Slti => B::Lt,
        Op::Sltiu => B::LtUnsigned,
        Op::Lui | Op::LoadImm | Op::LoadUimm => {
            let value = b.constant(i.imm);
            b.set(i.rd, value);
            return true;
        }
        Op::Auipc => {
            let value = b.constant(pc.0.wrapping_add_signed(i.imm).cast_signed());
            b.set(i.rd, value);
            return true;
        }
        _ => return word_register_immediate(b, i),
    };
    let x = b.get(i.rs1);
    let value = if plain == B::Add && i.rs1 == Reg::ZERO {
        b.constant(i.imm)
    } else {
        b.binary_const(plain, x, i.imm)
    };
    b.set(i.rd, value);
    true
}

fn word_register_immediate(b: &mut BlockBuilder, i: &Instruction) -> bool {
    let (op, extend) = match i.op {
        Op::Addiw => (B::Add, None),
        Op::Slliw => (B::Shl, None),
        Op::Srliw => (B::Lshr, Some(U::ZextW)),
        Op::Sraiw => (B::Ashr, Some(U::SextW)),
        _ => return false,
    };
    let mut x = b.get(i.rs1);
    if let Some(extend) = extend {
        x = b.unary(extend, x);
    }
    let value = b.binary_const(op, x, i.imm);
    b.set_word(i.rd, value);
    true
}

fn memory(b: &mut BlockBuilder, i: &Instruction) -> bool {
    let (width, is_signed) = match i.op {
        Op::Lb => (Width::Byte, true),
        Op::Lbu => (Width::Byte, false),
        Op::Lh => (Width::Half, true),
        Op::Lhu => (Width::Half, false),
        Op::Lw => (Width::Word, true),
        Op::Lwu => (Width::Word, false),
        Op::Ld => (Width::Double, false),
        Op::Sb => return store(b, i, Width::Byte),
        Op::Sh => return store(b, i, Width::Half),
        Op::Sw => return store(b, i, Width::Word),
        Op::Sd => return store(b, i, Width::Double),
        _ => return false,
    };
    let base = b.get(i.rs1);
    let value = b.load(width, is_signed, base, i.imm);
    b.set(i.rd, value);
    true
}

fn store(b: &mut BlockBuilder, i: &Instruction, width: Width) -> bool {
    let (base, value) = (b.get(i.rs1), b.get(i.rs2));
    b.store(width, base, i.imm, value);
    true
}

/// The condition of a branch.
pub(crate) fn condition(b: &mut BlockBuilder, i: &Instruction) -> Value {
    let op = match i.op {
        Op::Beq => B::Eq,
        Op::Bne => B::Ne,
        Op::Blt => B::Lt,
        Op::Bge => B::Ge,
        Op::Bltu => B::LtUnsigned,
        _ => B::GeUnsigned,
    };
    let (x, y) = (b.get(i.rs1), b.get(i.rs2));
    b.binary(op, x, y)
}
