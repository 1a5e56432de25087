//! A small assembler: programs as lists of items with labels, which a generator writes and a minimiser takes
//! apart.

pub mod compressed;
pub mod encode;
pub mod layout;
pub mod operations;

/// A general register, 0 to 31.
pub type Register = u8;

/// Names a place in a program; meaningless outside it.
pub type Label = u32;

/// One thing in a section. Its size depends on the item alone, so addresses are known after one pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A place.
    Label(Label),
    /// A 32-bit instruction word, or anything else of four bytes.
    Word(u32),
    /// A 16-bit instruction word.
    Half(u16),
    /// A conditional branch with this `funct3`.
    Branch {
        /// 0 beq, 1 bne, 4 blt, 5 bge, 6 bltu, 7 bgeu.
        funct3: u32,
        /// Left operand.
        rs1: Register,
        /// Right operand.
        rs2: Register,
        /// Where to.
        to: Label,
        /// Added to the target's address: two jumps into the middle of an instruction.
        plus: i32,
    },
    /// `c.beqz` or `c.bnez`.
    ShortBranch {
        /// `c.bnez`.
        not: bool,
        /// Register 8 to 15.
        rs1: Register,
        /// Where to.
        to: Label,
    },
    /// `jal`.
    Jump {
        /// The link register, 0 for none.
        rd: Register,
        /// Where to.
        to: Label,
    },
    /// `c.j`.
    ShortJump {
        /// Where to.
        to: Label,
    },
    /// `auipc` and `jalr`.
    FarJump {
        /// The link register.
        rd: Register,
        /// Holds the upper part in between.
        through: Register,
        /// Where to.
        to: Label,
    },
    /// `lui` and `jalr`.
    FarJumpAbsolute {
        /// The link register.
        rd: Register,
        /// Holds the upper part in between.
        through: Register,
        /// Where to.
        to: Label,
    },
    /// `auipc` and `addi`: the address of a label.
    Address {
        /// Gets the address.
        rd: Register,
        /// Whose address.
        of: Label,
        /// Added to it.
        plus: i32,
    },
    /// `lui` and `addiw`: the address of a label below 2^31.
    AddressAbsolute {
        /// Gets the address.
        rd: Register,
        /// Whose address.
        of: Label,
        /// Added to it.
        plus: i32,
    },
    /// A four-byte table entry with a label's address.
    Entry32(Label),
    /// A four-byte table entry with the distance from `base` to a label.
    EntryRelative {
        /// The label.
        to: Label,
        /// What it is relative to.
        base: Label,
    },
    /// An eight-byte table entry with a label's address.
    Entry64(Label),
    /// Eight bytes of data.
    Data(u64),
    /// Zero bytes up to an address that is a multiple of this power of two.
    Align(u32),
}

impl Item {
    /// Bytes that the item takes at `address`.
    #[must_use]
    pub fn size(&self, address: u64) -> u64 {
        match self {
            Self::Label(_) => 0,
            Self::Half(_) | Self::ShortBranch { .. } | Self::ShortJump { .. } => 2,
            Self::Word(_)
            | Self::Branch { .. }
            | Self::Jump { .. }
            | Self::Entry32(_)
            | Self::EntryRelative { .. } => 4,
            Self::FarJump { .. }
            | Self::FarJumpAbsolute { .. }
            | Self::Address { .. }
            | Self::AddressAbsolute { .. }
            | Self::Entry64(_)
            | Self::Data(_) => 8,
            Self::Align(to) => address.next_multiple_of(u64::from(*to)) - address,
        }
    }
}
