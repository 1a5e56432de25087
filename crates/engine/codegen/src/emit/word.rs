//! Arithmetic on words. The IR computes on 64 bits and extends the low half. LLVM gets 32-bit operations,
//! from which it recognizes rotates, adds with carry and short encodings.

use antares_ir::{BinaryOp, Block, Op, UnaryOp, Value};
use inkwell::values::IntValue;

use crate::{Result, emit::Emitter};

/// The operation and its operands that compute the low word of `value` from those of the operands, if any.
fn word_of(block: &Block, value: Value) -> Option<(BinaryOp, Value, Value)> {
    let op_of = |value: Value| &block.ops[value.0 as usize];
    let Op::Binary(op, x, y) = *op_of(value) else { return None };
    let extended = |by: UnaryOp| match *op_of(x) {
        Op::Unary(unary, inner) if unary == by => Some(inner),
        _ => None,
    };
    let is_distance = || match *op_of(y) {
        Op::Const(distance) => (0..32).contains(&distance),
        Op::Binary(BinaryOp::And, _, mask) => *op_of(mask) == Op::Const(31),
        _ => false,
    };
    match op {
        BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => {
            Some((op, x, y))
        }
        BinaryOp::Shl if is_distance() => Some((op, x, y)),
        BinaryOp::Lshr if is_distance() => extended(UnaryOp::ZextW).map(|x| (op, x, y)),
        BinaryOp::Ashr if is_distance() => extended(UnaryOp::SextW).map(|x| (op, x, y)),
        _ => None,
    }
}

impl<'c> Emitter<'c, '_> {
    /// The sign-extended low word of `value`, by operations on words.
    pub(crate) fn word(
        &self,
        block: &Block,
        value: Value,
        values: &[IntValue<'c>],
    ) -> Result<Option<IntValue<'c>>> {
        let Some((op, x, y)) = word_of(block, value) else { return Ok(None) };
        let (b, i32) = (&self.builder, self.context.i32_type());
        let x = b.build_int_truncate(values[x.0 as usize], i32, "")?;
        let y = b.build_int_truncate(values[y.0 as usize], i32, "")?;
        Ok(Some(b.build_int_s_extend(self.plain(op, x, y)?, self.i64, "word")?))
    }
}
