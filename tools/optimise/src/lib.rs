//! Scripts that cost fewer cycles: instructions in another order and in other registers, so that ckb-vm
//! fuses them. Nothing is computed in another way.
//!
//! ```text
//! search     proposes code for pieces of straight code; it is not trusted
//! checker    compares the two finished files, by the relocations that the linker kept
//! optimise   takes back what the checker refuses
//! ```
#![forbid(unsafe_code)]

mod checker;
mod optimise;
mod search;

use std::collections::BTreeMap;

use antares_abi::CompileOptions;
use antares_program::ProgramError;

pub use checker::{
    code::{Obstacle, Untouched},
    compare::{Difference, LinkedScript, Why},
};
pub use optimise::{Optimised, Rewrite, optimise};
pub use search::RewriteRule;

/// Why a script is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RewriteError {
    /// ckb-vm does not load it.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// It is damaged.
    #[error("the ELF file cannot be read: {error}")]
    Elf {
        /// Why.
        error: String,
    },
    /// The linker kept no relocations. Those that a loader of libraries applies are not enough.
    #[error(
        "the linker kept no relocations, so nothing tells where the code is entered (what a library has for its \
         loader does not): link with -Wl,-q (gcc and clang; libraries: -Wl,-q,-Bsymbolic) or with -C link-arg=-q \
         (rustc), do not strip it, and strip the result"
    )]
    NoRelocations,
    /// Nobody knows what a relocation means.
    #[error("a relocation at {at:#x} is of unknown type {kind}")]
    Unknown {
        /// Its type.
        kind: u32,
        /// Its address.
        at: u64,
    },
    /// A relocation is not about the bytes that are there.
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
    /// An address is formed that no relocation tells.
    #[error(
        "no relocation tells the address that is formed at {0:#x}: compile without -mno-relax (rustc: with \
             -C target-feature=+relax)"
    )]
    NoRelocation(u64),
    /// A return address is computed.
    #[error("the return at {0:#x} goes to an address that is computed")]
    ComputedReturn(u64),
    /// Control goes to handlers of exceptions, which no relocation tells.
    #[error("the table at {0:#x} is of exceptions: compile with -fno-exceptions or panic=abort")]
    Exceptions(u64),
    /// A script that reads its cycles sees that they are fewer.
    #[error("the script may read its cycles: {0:#x} has the number of that system call, 2042")]
    ReadsCycles(u64),
    /// Bytes outside of what is loaded differ.
    #[error("the files differ outside of code, at offset {0:#x}")]
    Outside(u64),
}

/// What to rewrite.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The machine whose cycles are to be saved. The others charge no more than before.
    pub machine: CompileOptions,
    /// How many times instructions were executed, by address. Without it every piece counts once.
    pub runs: Option<BTreeMap<u64, u64>>,
    /// Also rewrite what never ran.
    pub takes_all: bool,
}
