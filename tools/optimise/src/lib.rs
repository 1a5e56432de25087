//! Rewrites scripts to cost fewer cycles: reorders instructions and renames registers, so that ckb-vm fuses
//! more. The computation does not change.
//!
//! ```text
//! search     proposes code for pieces of straight-line code; it is not trusted
//! checker    compares the two finished files, using the linker's relocations
//! optimise   reverts what the checker rejects
//! ```

mod checker;
mod optimise;
mod search;

use std::collections::BTreeMap;

use antares_abi::CompileOptions;
use antares_program::ProgramError;

pub use checker::{
    code::{Obstacle, Untouched},
    compare::LinkedScript,
    difference::{Difference, Why},
};
pub use optimise::{Optimised, Rewrite, optimise};
pub use search::RewriteRule;

/// Why a script cannot be rewritten.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RewriteError {
    /// ckb-vm does not load it.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The file is damaged.
    #[error("the ELF file cannot be read: {error}")]
    Elf {
        /// The problem.
        error: String,
    },
    /// The linker did not retain relocations. Dynamic relocations are insufficient.
    #[error(
        "the linker kept no relocations, so nothing tells where the code is entered (what a library has for its \
         loader does not): link with -Wl,-q (gcc and clang; libraries: -Wl,-q,-Bsymbolic) or with -C link-arg=-q \
         (rustc), do not strip it, and strip the result"
    )]
    NoRelocations,
    /// A relocation of unknown type.
    #[error("a relocation at {at:#x} is of unknown type {kind}")]
    Unknown {
        /// Its type.
        kind: u32,
        /// Its address.
        at: u64,
    },
    /// A relocation does not match the bytes at its address.
    #[error(
        "the relocation of type {kind} at {at:#x} does not fit the bytes there: they were changed, or a call goes \
         through a table (PLT), as in libraries that are linked without -Bsymbolic and for ifuncs"
    )]
    Stale {
        /// Its type.
        kind: u32,
        /// Its address.
        at: u64,
    },
    /// The script forms an address without a relocation.
    #[error(
        "no relocation tells the address that is formed at {0:#x}: compile without -mno-relax (rustc: with \
             -C target-feature=+relax)"
    )]
    NoRelocation(u64),
    /// The script computes a return address.
    #[error("the return at {0:#x} goes to an address that is computed")]
    ComputedReturn(u64),
    /// Exception handlers receive control without a relocation.
    #[error("the table at {0:#x} is of exceptions: compile with -fno-exceptions or panic=abort")]
    Exceptions(u64),
    /// The script reads its cycles, which a rewrite changes.
    #[error("the script may read its cycles: {0:#x} has the number of that system call, 2042")]
    ReadsCycles(u64),
    /// Bytes outside of loaded parts differ.
    #[error("the files differ outside of code, at offset {0:#x}")]
    Outside(u64),
}

/// Settings of a rewrite.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The machine to optimise for. Costs on others must not increase.
    pub machine: CompileOptions,
    /// Execution counts of instructions, by address. If missing, every piece counts once.
    pub runs: Option<BTreeMap<u64, u64>>,
    /// Also rewrites code that never ran.
    pub takes_all: bool,
}
