//! The operators and their names in the text form.

macro_rules! operators {
    ($(#[$about:meta])* $name:ident { $($(#[$does:meta])* $op:ident = $text:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$does])* $op,)* }

        impl $name {
            /// All operators.
            pub const ALL: &[Self] = &[$(Self::$op,)*];

            /// Name in the text form.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$op => $text,)* }
            }
        }
    };
}

operators! {
/// Two operands, one result; all on 64 bits.
BinaryOp {
    /// Sum, modulo 2^64.
    Add = "add",
    /// Difference, modulo 2^64.
    Sub = "sub",
    /// Bitwise and.
    And = "and",
    /// Bitwise or.
    Or = "or",
    /// Bitwise exclusive or.
    Xor = "xor",
    /// Shift left; the distance counts modulo 64, as in all shifts and rotates.
    Shl = "shl",
    /// Logical shift right.
    Lshr = "lshr",
    /// Arithmetic shift right.
    Ashr = "ashr",
    /// Rotate left.
    Rotl = "rotl",
    /// Rotate right.
    Rotr = "rotr",
    /// Low half of the product.
    Mul = "mul",
    /// High half, both signed.
    MulHigh = "mul.high",
    /// High half, first signed, second unsigned.
    MulHighSignedUnsigned = "mul.high.su",
    /// High half, both unsigned.
    MulHighUnsigned = "mul.high.u",
    /// Signed quotient; by zero -1, overflow -2^63 (RISC-V).
    Div = "div",
    /// Unsigned quotient; by zero 2^64-1.
    DivUnsigned = "div.u",
    /// Signed remainder; by zero the dividend, overflow 0.
    Rem = "rem",
    /// Unsigned remainder; by zero the dividend.
    RemUnsigned = "rem.u",
    /// 1 if equal, else 0. All comparisons produce 1 or 0.
    Eq = "eq",
    /// Not equal.
    Ne = "ne",
    /// Less, signed.
    Lt = "lt",
    /// Less, unsigned.
    LtUnsigned = "lt.u",
    /// Greater or equal, signed.
    Ge = "ge",
    /// Greater or equal, unsigned.
    GeUnsigned = "ge.u",
    /// Signed minimum.
    Min = "min",
    /// Unsigned minimum.
    MinUnsigned = "min.u",
    /// Signed maximum.
    Max = "max",
    /// Unsigned maximum.
    MaxUnsigned = "max.u",
    /// Carry-less product, low half.
    Clmul = "clmul",
    /// Carry-less product, high half.
    ClmulHigh = "clmul.high",
    /// Carry-less product, reversed.
    ClmulReversed = "clmul.reversed",
}
}

operators! {
/// One operand, one result.
UnaryOp {
    /// Sign extend the low 8 bits.
    SextB = "sext.b",
    /// Sign extend the low 16 bits.
    SextH = "sext.h",
    /// Sign extend the low 32 bits.
    SextW = "sext.w",
    /// Zero extend the low 16 bits.
    ZextH = "zext.h",
    /// Zero extend the low 32 bits.
    ZextW = "zext.w",
    /// Bitwise complement.
    Not = "not",
    /// Leading zeros, 64 for 0.
    Clz = "clz",
    /// Trailing zeros, 64 for 0.
    Ctz = "ctz",
    /// The number of ones.
    Popcount = "popcount",
    /// Each byte becomes 0 if it is 0, else 255.
    OrCombine = "or.combine",
    /// Bytes in reverse order.
    ByteSwap = "byte.swap",
}
}
