//! A small assembler: programs as lists of items with labels, which generators build and the minimiser
//! reduces.

pub mod compressed;
pub mod encode;
pub mod layout;
pub mod operations;

/// A general register, 0 to 31.
pub type Register = u8;

/// A label of a program; meaningful only within it.
pub type Label = u32;

/// An item of a section. Its size depends only on the item, so one pass determines all addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A label.
    Label(Label),
    /// A 32-bit instruction word, or other data of four bytes.
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
        /// The target.
        to: Label,
        /// Added to the target's address: 2 jumps into the middle of an instruction.
        plus: i32,
    },
    /// `jal`.
    Jump {
        /// The link register, 0 for none.
        rd: Register,
        /// The target.
        to: Label,
    },
    /// `auipc` and `jalr`, or `lui` and `jalr`.
    FarJump {
        /// By the target's address, not by the distance to it.
        is_absolute: bool,
        /// The link register.
        rd: Register,
        /// Scratch register for the upper part.
        through: Register,
        /// The target.
        to: Label,
    },
    /// The address of a label: `auipc` and `addi`, or `lui` and `addiw` if it is below 2^31.
    Address {
        /// By the address, not by the distance to it.
        is_absolute: bool,
        /// Receives the address.
        rd: Register,
        /// The label.
        of: Label,
        /// Added to the address.
        plus: i32,
    },
    /// A four-byte table entry with a label's address.
    Entry32(Label),
    /// A four-byte table entry with the distance from `base` to a label.
    EntryRelative {
        /// The label.
        to: Label,
        /// The base of the distance.
        base: Label,
    },
    /// An eight-byte table entry with a label's address.
    Entry64(Label),
    /// Eight bytes of data.
    Data(u64),
    /// Zero bytes up to a multiple of this power of two.
    Align(u32),
}

impl Item {
    /// Size of the item at `address`, in bytes.
    #[must_use]
    pub fn size(&self, address: u64) -> u64 {
        match self {
            Self::Label(_) => 0,
            Self::Half(_) => 2,
            Self::Word(_)
            | Self::Branch { .. }
            | Self::Jump { .. }
            | Self::Entry32(_)
            | Self::EntryRelative { .. } => 4,
            Self::FarJump { .. } | Self::Address { .. } | Self::Entry64(_) | Self::Data(_) => 8,
            Self::Align(to) => address.next_multiple_of(u64::from(*to)) - address,
        }
    }
}
