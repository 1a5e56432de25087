//! A model of each IR operation, written independently of all generators from the documentation of
//! `antares_lift::ir`.

use antares_ir::{BinaryOp, UnaryOp};

/// Numbers that reveal errors.
pub(crate) const NUMBERS: [u64; 14] = [
    0,
    1,
    2,
    63,
    64,
    0x7f,
    0x80,
    0xffff_8000,
    0x7fff_ffff,
    0xffff_ffff_8000_0000,
    0x0102_0304_0506_0708,
    1 << 63,
    (1 << 63) - 1,
    u64::MAX,
];

pub(crate) fn binary(op: BinaryOp, a: u64, b: u64) -> u64 {
    let (x, y) = (a.cast_signed(), b.cast_signed());
    let distance = u32::try_from(b % 64).unwrap();
    let (wide_x, wide_y) = (i128::from(x), i128::from(y));
    let (wide_a, wide_b) = (i128::from(a), i128::from(b));
    let high = |product: i128| (product >> 64) as u64;
    match op {
        BinaryOp::Add => a.wrapping_add(b),
        BinaryOp::Sub => a.wrapping_sub(b),
        BinaryOp::And => a & b,
        BinaryOp::Or => a | b,
        BinaryOp::Xor => a ^ b,
        BinaryOp::Shl => a << distance,
        BinaryOp::Lshr => a >> distance,
        BinaryOp::Ashr => (x >> distance).cast_unsigned(),
        BinaryOp::Rotl => a.rotate_left(distance),
        BinaryOp::Rotr => a.rotate_right(distance),
        BinaryOp::Mul => a.wrapping_mul(b),
        BinaryOp::MulHigh => high(wide_x * wide_y),
        BinaryOp::MulHighSignedUnsigned => high(wide_x * wide_b),
        BinaryOp::MulHighUnsigned => ((u128::from(a) * u128::from(b)) >> 64) as u64,
        BinaryOp::Div if b == 0 => u64::MAX,
        BinaryOp::Div => (wide_x / wide_y) as u64,
        BinaryOp::DivUnsigned => a.checked_div(b).unwrap_or(u64::MAX),
        BinaryOp::Rem if b == 0 => a,
        BinaryOp::Rem => (wide_x % wide_y) as u64,
        BinaryOp::RemUnsigned => a.checked_rem(b).unwrap_or(a),
        BinaryOp::Eq => u64::from(a == b),
        BinaryOp::Ne => u64::from(a != b),
        BinaryOp::Lt => u64::from(wide_x < wide_y),
        BinaryOp::LtUnsigned => u64::from(wide_a < wide_b),
        BinaryOp::Ge => u64::from(wide_x >= wide_y),
        BinaryOp::GeUnsigned => u64::from(wide_a >= wide_b),
        BinaryOp::Min => x.min(y).cast_unsigned(),
        BinaryOp::MinUnsigned => a.min(b),
        BinaryOp::Max => x.max(y).cast_unsigned(),
        BinaryOp::MaxUnsigned => a.max(b),
        BinaryOp::Clmul => carryless(a, b) as u64,
        BinaryOp::ClmulHigh => (carryless(a, b) >> 64) as u64,
        BinaryOp::ClmulReversed => (carryless(a, b) >> 63) as u64,
    }
}

fn carryless(a: u64, b: u64) -> u128 {
    (0..64).filter(|bit| b >> bit & 1 == 1).fold(0, |sum, bit| sum ^ u128::from(a) << bit)
}

pub(crate) fn unary(op: UnaryOp, a: u64) -> u64 {
    let bytes = a.to_le_bytes();
    match op {
        UnaryOp::SextB => i64::from(a as i8).cast_unsigned(),
        UnaryOp::SextH => i64::from(a as i16).cast_unsigned(),
        UnaryOp::SextW => i64::from(a as i32).cast_unsigned(),
        UnaryOp::ZextH => u64::from(a as u16),
        UnaryOp::ZextW => u64::from(a as u32),
        UnaryOp::Not => u64::MAX - a,
        UnaryOp::Clz => u64::from(a.leading_zeros()),
        UnaryOp::Ctz => u64::from(a.trailing_zeros()),
        UnaryOp::Popcount => u64::from(a.count_ones()),
        UnaryOp::OrCombine => u64::from_le_bytes(bytes.map(|byte| if byte == 0 { 0 } else { 255 })),
        UnaryOp::ByteSwap => u64::from_be_bytes(bytes),
    }
}
