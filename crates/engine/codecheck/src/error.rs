//! Errors of the code check.

/// Why the check refuses a library's code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodeError {
    /// The library does not have the expected structure. The structural check runs before this one.
    #[error("the library cannot be read: {part}")]
    Image {
        /// The invalid part.
        part: &'static str,
    },
    /// An instruction is invalid.
    #[error("the instruction at {address:#x} {fault}")]
    Code {
        /// Offset from the library's start.
        address: u64,
        /// The fault.
        fault: CodeFault,
    },
    /// An entry of the entry table points into the middle of an instruction or outside the code.
    #[error("the entry table leads to {address:#x}, where no instruction begins")]
    Thunk {
        /// The target of the entry.
        address: u64,
    },
}

/// A fault of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodeFault {
    /// Bytes that do not decode, or an instruction cut off by the end of the code.
    #[error("is none")]
    Invalid,
    /// An instruction that is not on the allow list.
    #[error("is not one that our generators use: {0:?}")]
    Instruction(iced_x86::Mnemonic),
    /// A prefix that changes the instruction's meaning.
    #[error("has a prefix that our generators do not use")]
    Prefix,
    /// A register outside the general-purpose and vector ones, such as a mask register.
    #[error("has an operand that our generators do not use")]
    Operand,
    /// A change of the stack pointer by anything but a constant.
    #[error("changes the stack pointer other than by a constant below a stack guard's size")]
    StackPointer,
    /// An access without a base register, or through another segment.
    #[error("touches memory in a way that our generators do not")]
    Memory,
    /// A RIP-relative access to anything but constant data.
    #[error("touches {address:#x}, which is no constant of the library")]
    Constant {
        /// Offset from the library's start.
        address: u64,
    },
    /// A direct branch to an address where no instruction begins.
    #[error("goes to {address:#x}, where no instruction begins")]
    Target {
        /// Offset from the library's start.
        address: u64,
    },
    /// An indirect branch whose address is not computed in a known way.
    #[error("goes to an address that is not computed as our generators do")]
    Computed,
    /// Execution falls off the end of the code.
    #[error("is the last one, and execution would go on behind it")]
    End,
}
