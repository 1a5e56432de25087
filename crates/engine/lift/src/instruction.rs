//! Lifts guest instructions to operations, by one short rule each. Groups have their own files.
//!
//! The source of every rule is ckb-vm's `instructions/execute.rs`. The differential tests compare the results
//! with ckb-vm.

use antares_ir::{BinaryOp as B, UnaryOp as U, Value, Width};
use antares_program::{Format, GuestAddr, Instruction, Op};

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
    if plain(b, i)
        || word(b, i)
        || constant(b, pc, i)
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

/// `rd = rs1 op y` on 64 bits, where `y` is the second operand.
fn plain(b: &mut BlockBuilder, i: &Instruction) -> bool {
    let op = match i.op {
        Op::Add | Op::Addi => B::Add,
        Op::Sub => B::Sub,
        Op::And | Op::Andi => B::And,
        Op::Or | Op::Ori => B::Or,
        Op::Xor | Op::Xori => B::Xor,
        Op::Sll | Op::Slli => B::Shl,
        Op::Srl | Op::Srli => B::Lshr,
        Op::Sra | Op::Srai => B::Ashr,
        Op::Slt | Op::Slti => B::Lt,
        Op::Sltu | Op::Sltiu => B::LtUnsigned,
        Op::Mul => B::Mul,
        Op::Mulh => B::MulHigh,
        Op::Mulhsu => B::MulHighSignedUnsigned,
        Op::Mulhu => B::MulHighUnsigned,
        Op::Div => B::Div,
        Op::Divu => B::DivUnsigned,
        Op::Rem => B::Rem,
        Op::Remu => B::RemUnsigned,
        Op::Max => B::Max,
        Op::Maxu => B::MaxUnsigned,
        Op::Min => B::Min,
        Op::Minu => B::MinUnsigned,
        Op::Rol => B::Rotl,
        Op::Ror | Op::Rori => B::Rotr,
        Op::Clmul => B::Clmul,
        Op::Clmulh => B::ClmulHigh,
        Op::Clmulr => B::ClmulReversed,
        _ => return false,
    };
    let (x, y) = (b.get(i.rs1), second(b, i));
    b.set_binary(i.rd, op, x, y);
    true
}

/// The second operand: the immediate of formats that have one.
pub(crate) fn second(b: &mut BlockBuilder, i: &Instruction) -> Value {
    if i.op.format() == Format::I { b.constant(i.imm) } else { b.get(i.rs2) }
}

/// Operations on the low words of both operands; the result is sign extended.
fn word(b: &mut BlockBuilder, i: &Instruction) -> bool {
    let (op, extend) = match i.op {
        Op::Addw | Op::Addiw => (B::Add, None),
        Op::Subw => (B::Sub, None),
        Op::Mulw => (B::Mul, None),
        Op::Divw => (B::Div, Some(U::SextW)),
        Op::Divuw => (B::DivUnsigned, Some(U::ZextW)),
        Op::Remw => (B::Rem, Some(U::SextW)),
        Op::Remuw => (B::RemUnsigned, Some(U::ZextW)),
        Op::Sllw | Op::Slliw => (B::Shl, None),
        Op::Srlw | Op::Srliw => (B::Lshr, Some(U::ZextW)),
        Op::Sraw | Op::Sraiw => (B::Ashr, Some(U::SextW)),
        _ => return false,
    };
    let is_immediate = i.op.format() == Format::I;
    let is_shift = matches!(op, B::Shl | B::Lshr | B::Ashr);
    let (mut x, mut y) = (b.get(i.rs1), None);
    if !is_immediate {
        let register = b.get(i.rs2);
        y = Some(if is_shift { b.binary_const(B::And, register, 31) } else { register });
    }
    if let Some(extend) = extend {
        x = b.unary(extend, x);
        y = y.map(|y| if is_shift { y } else { b.unary(extend, y) });
    }
    let y = y.unwrap_or_else(|| b.constant(i.imm));
    let value = b.binary(op, x, y);
    b.set_word(i.rd, value);
    true
}

fn constant(b: &mut BlockBuilder, pc: GuestAddr, i: &Instruction) -> bool {
    let number = match i.op {
        Op::Lui | Op::LoadImm | Op::LoadUimm => i.imm,
        Op::Auipc => pc.0.wrapping_add_signed(i.imm).cast_signed(),
        _ => return false,
    };
    let value = b.constant(number);
    b.set(i.rd, value);
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
