//! Constant folding.

use antares_ir::{BinaryOp, UnaryOp};

use crate::fitted;

/// Folds `op` on two constants, if the operation is supported.
pub(crate) fn binary(op: BinaryOp, a: i64, b: i64) -> Option<i64> {
    let (x, y) = (a.cast_unsigned(), b.cast_unsigned());
    let distance: u32 = fitted(b & 63);
    Some(match op {
        BinaryOp::Add => a.wrapping_add(b),
        BinaryOp::Sub => a.wrapping_sub(b),
        BinaryOp::And => a & b,
        BinaryOp::Or => a | b,
        BinaryOp::Xor => a ^ b,
        BinaryOp::Shl => a << distance,
        BinaryOp::Lshr => (x >> distance).cast_signed(),
        BinaryOp::Ashr => a >> distance,
        BinaryOp::Mul => a.wrapping_mul(b),
        BinaryOp::Eq => i64::from(a == b),
        BinaryOp::Ne => i64::from(a != b),
        BinaryOp::Lt => i64::from(a < b),
        BinaryOp::LtUnsigned => i64::from(x < y),
        BinaryOp::Ge => i64::from(a >= b),
        BinaryOp::GeUnsigned => i64::from(x >= y),
        BinaryOp::Min => a.min(b),
        BinaryOp::MinUnsigned => x.min(y).cast_signed(),
        BinaryOp::Max => a.max(b),
        BinaryOp::MaxUnsigned => x.max(y).cast_signed(),
        _ => return None,
    })
}

/// Folds `op` on a constant, if the operation is supported.
pub(crate) fn unary(op: UnaryOp, a: i64) -> Option<i64> {
    Some(match op {
        UnaryOp::SextB => a << 56 >> 56,
        UnaryOp::SextH => a << 48 >> 48,
        UnaryOp::SextW => a << 32 >> 32,
        UnaryOp::ZextH => a & 0xffff,
        UnaryOp::ZextW => a & 0xffff_ffff,
        UnaryOp::Not => !a,
        _ => return None,
    })
}
