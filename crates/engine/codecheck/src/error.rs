//! Why code is refused.

/// Why a library's code is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodeError {
    /// The library is not built as ours are; the structural check comes before this one.
    #[error("the library cannot be read: {part}")]
    Image {
        /// The part that is not as it must be.
        part: &'static str,
    },
    /// An instruction.
    #[error("the instruction at {address:#x} {fault}")]
    Code {
        /// Where, counted from the library's start.
        address: u64,
        /// What is wrong with it.
        fault: CodeFault,
    },
    /// An entry of the entry table that leads into the middle of an instruction or out of the code.
    #[error("the entry table leads to {address:#x}, where no instruction begins")]
    Thunk {
        /// Where it leads to.
        address: u64,
    },
}

/// What is wrong with an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodeFault {
    /// No instruction, or cut off by the end of the code.
    #[error("is none")]
    Invalid,
    /// Not on the list.
    #[error("is not one that our generators use: {0:?}")]
    Instruction(iced_x86::Mnemonic),
    /// A prefix that changes its meaning.
    #[error("has a prefix that our generators do not use")]
    Prefix,
    /// A segment, control, mask or other register beside the general and the vector ones.
    #[error("has an operand that our generators do not use")]
    Operand,
    /// The stack pointer in another way than by a constant.
    #[error("changes the stack pointer other than by a constant below a stack guard's size")]
    StackPointer,
    /// An access without a base register, or by another segment.
    #[error("touches memory in a way that our generators do not")]
    Memory,
    /// An access by the instruction's own address to what is not constant data.
    #[error("touches {address:#x}, which is no constant of the library")]
    Constant {
        /// Where, counted from the library's start.
        address: u64,
    },
    /// A direct branch to where no instruction begins.
    #[error("goes to {address:#x}, where no instruction begins")]
    Target {
        /// Where, counted from the library's start.
        address: u64,
    },
    /// A branch by an address in a register or in memory that is in no known shape.
    #[error("goes to an address that is not computed as our generators do")]
    Computed,
    /// Falls off the end of the code.
    #[error("is the last one, and execution would go on behind it")]
    End,
}
