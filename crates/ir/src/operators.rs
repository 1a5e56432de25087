//! What operations compute.

/// Two operands, one result; all on 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinaryOp {
    /// Sum, modulo 2^64.
    Add,
    /// Difference, modulo 2^64.
    Sub,
    /// Bitwise and.
    And,
    /// Bitwise or.
    Or,
    /// Bitwise exclusive or.
    Xor,
    /// Shift left; the distance counts modulo 64, as in all shifts and rotates.
    Shl,
    /// Logical shift right.
    Lshr,
    /// Arithmetic shift right.
    Ashr,
    /// Rotate left.
    Rotl,
    /// Rotate right.
    Rotr,
    /// Low half of the product.
    Mul,
    /// High half, both signed.
    MulHigh,
    /// High half, first signed, second unsigned.
    MulHighSignedUnsigned,
    /// High half, both unsigned.
    MulHighUnsigned,
    /// Signed quotient; by zero -1, overflow -2^63 (RISC-V).
    Div,
    /// Unsigned quotient; by zero 2^64-1.
    DivUnsigned,
    /// Signed remainder; by zero the dividend, overflow 0.
    Rem,
    /// Unsigned remainder; by zero the dividend.
    RemUnsigned,
    /// 1 if equal, else 0; as all comparisons.
    Eq,
    /// Not equal.
    Ne,
    /// Less, signed.
    Lt,
    /// Less, unsigned.
    LtUnsigned,
    /// Greater or equal, signed.
    Ge,
    /// Greater or equal, unsigned.
    GeUnsigned,
    /// Signed minimum.
    Min,
    /// Unsigned minimum.
    MinUnsigned,
    /// Signed maximum.
    Max,
    /// Unsigned maximum.
    MaxUnsigned,
    /// Carry-less product, low half.
    Clmul,
    /// Carry-less product, high half.
    ClmulHigh,
    /// Carry-less product, reversed.
    ClmulReversed,
}

/// One operand, one result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnaryOp {
    /// Sign extend the low 8 bits.
    SextB,
    /// Sign extend the low 16 bits.
    SextH,
    /// Sign extend the low 32 bits.
    SextW,
    /// Zero extend the low 16 bits.
    ZextH,
    /// Zero extend the low 32 bits.
    ZextW,
    /// Bitwise complement.
    Not,
    /// Leading zeros, 64 for 0.
    Clz,
    /// Trailing zeros, 64 for 0.
    Ctz,
    /// Ones.
    Popcount,
    /// Each byte becomes 0 if it is 0, else 255.
    OrCombine,
    /// Bytes in reverse order.
    ByteSwap,
}

impl BinaryOp {
    /// All of them.
    pub const ALL: [Self; 31] = [
        Self::Add,
        Self::Sub,
        Self::And,
        Self::Or,
        Self::Xor,
        Self::Shl,
        Self::Lshr,
        Self::Ashr,
        Self::Rotl,
        Self::Rotr,
        Self::Mul,
        Self::MulHigh,
        Self::MulHighSignedUnsigned,
        Self::MulHighUnsigned,
        Self::Div,
        Self::DivUnsigned,
        Self::Rem,
        Self::RemUnsigned,
        Self::Eq,
        Self::Ne,
        Self::Lt,
        Self::LtUnsigned,
        Self::Ge,
        Self::GeUnsigned,
        Self::Min,
        Self::MinUnsigned,
        Self::Max,
        Self::MaxUnsigned,
        Self::Clmul,
        Self::ClmulHigh,
        Self::ClmulReversed,
    ];
}

impl UnaryOp {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::SextB,
        Self::SextH,
        Self::SextW,
        Self::ZextH,
        Self::ZextW,
        Self::Not,
        Self::Clz,
        Self::Ctz,
        Self::Popcount,
        Self::OrCombine,
        Self::ByteSwap,
    ];
}
