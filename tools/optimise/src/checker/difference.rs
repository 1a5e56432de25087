//! Why the checker rejects a file.

use std::ops::Range;

use antares_program::Reg;

/// Why a file is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    /// A change outside of changeable code.
    #[error("bytes changed that are no changeable code")]
    Bytes,
    /// New instructions end at another address than the old ones.
    #[error("the new instructions do not end where the old ones do")]
    Length,
    /// A machine decodes other instructions.
    #[error("VM version {0} reads other instructions there")]
    Version(u32),
    /// Not only straight-line code.
    #[error("it is more than straight code")]
    Instruction,
    /// The loads between two stores, including their addresses. A failing load ends the script.
    #[error("loads differ")]
    Loads,
    /// The stores, including their order, addresses and values.
    #[error("stores differ")]
    Stores,
    /// A register differs where it may be read.
    #[error("{0} differs where it may be read")]
    Register(Reg),
    /// The cost is higher.
    #[error("it costs more cycles in VM version {0}")]
    Cycles(u32),
}

/// Where and why a file is rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Address range of the responsible code.
    pub at: Range<u64>,
    /// The reason.
    pub why: Why,
}
