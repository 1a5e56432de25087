//! Operands and operation codes of instructions, as encodings number them.

/// A general-purpose host register, by its number in encodings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gpr(pub(crate) u8);

impl Gpr {
    pub(crate) const RAX: Self = Self(0);
    pub(crate) const RCX: Self = Self(1);
    pub(crate) const RDX: Self = Self(2);
    pub(crate) const RBX: Self = Self(3);
    pub(crate) const RSP: Self = Self(4);
    pub(crate) const RBP: Self = Self(5);
    pub(crate) const RSI: Self = Self(6);
    pub(crate) const RDI: Self = Self(7);
    pub(crate) const R8: Self = Self(8);
    pub(crate) const R9: Self = Self(9);
    pub(crate) const R10: Self = Self(10);
    pub(crate) const R11: Self = Self(11);
    pub(crate) const R12: Self = Self(12);
    pub(crate) const R13: Self = Self(13);
    pub(crate) const R14: Self = Self(14);
    pub(crate) const R15: Self = Self(15);

    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }

    pub(crate) fn low(self) -> u8 {
        self.0 & 7
    }

    pub(crate) fn high(self) -> u8 {
        self.0 >> 3
    }
}

/// A host address: `base + index * 2^scale + displacement`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mem {
    pub(crate) base: Gpr,
    pub(crate) index: Option<(Gpr, u8)>,
    pub(crate) displacement: i32,
}

impl Mem {
    pub(crate) fn at(base: Gpr, displacement: i32) -> Self {
        Self { base, index: None, displacement }
    }

    pub(crate) fn indexed(base: Gpr, index: Gpr, displacement: i32) -> Self {
        Self { base, index: Some((index, 0)), displacement }
    }

    /// Entry `index` of a table of 4-byte entries.
    pub(crate) fn entry(base: Gpr, index: Gpr) -> Self {
        Self { base, index: Some((index, 2)), displacement: 0 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rm {
    Reg(Gpr),
    Mem(Mem),
}

impl Rm {
    /// The high bits of its index and base registers.
    pub(crate) fn high(self) -> (u8, u8) {
        match self {
            Self::Reg(register) => (0, register.high()),
            Self::Mem(memory) => (memory.index.map_or(0, |(index, _)| index.high()), memory.base.high()),
        }
    }
}

impl From<Gpr> for Rm {
    fn from(register: Gpr) -> Self {
        Self::Reg(register)
    }
}

impl From<Mem> for Rm {
    fn from(memory: Mem) -> Self {
        Self::Mem(memory)
    }
}

/// Two-operand arithmetic, by its number in encodings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alu {
    Add = 0,
    Or = 1,
    Adc = 2,
    And = 4,
    Sub = 5,
    Xor = 6,
    Cmp = 7,
}

/// Shifts and rotates, by their number in encodings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shift {
    Rol = 0,
    Ror = 1,
    Shl = 4,
    Shr = 5,
    Sar = 7,
}

/// One-operand arithmetic, by its number in encodings. Products and quotients use rdx and rax.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unary {
    Not = 2,
    Neg = 3,
    Imul = 5,
    Div = 6,
    Idiv = 7,
}

/// Bit counts, by the last byte of the opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    Popcnt = 0xb8,
    Tzcnt = 0xbc,
    Lzcnt = 0xbd,
}

/// Extensions of narrow values, by the last byte of the opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extend {
    ZeroByte = 0xb6,
    ZeroHalf = 0xb7,
    SignByte = 0xbe,
    SignHalf = 0xbf,
}

/// A condition, by its number in encodings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cond(pub(crate) u8);

impl Cond {
    pub(crate) const BELOW: Self = Self(2);
    pub(crate) const ABOVE_EQUAL: Self = Self(3);
    pub(crate) const EQUAL: Self = Self(4);
    pub(crate) const NOT_EQUAL: Self = Self(5);
    pub(crate) const BELOW_EQUAL: Self = Self(6);
    pub(crate) const ABOVE: Self = Self(7);
    pub(crate) const SIGN: Self = Self(8);
    pub(crate) const LESS: Self = Self(12);
    pub(crate) const GREATER_EQUAL: Self = Self(13);
    pub(crate) const LESS_EQUAL: Self = Self(14);
    pub(crate) const GREATER: Self = Self(15);

    /// The opposite condition. The last bit negates a condition.
    pub(crate) fn inverted(self) -> Self {
        Self(self.0 ^ 1)
    }
}
