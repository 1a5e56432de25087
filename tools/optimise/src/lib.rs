//! Scripts that cost fewer cycles: windows of code rewritten for ckb-vm's cost model, each proved by a
//! solver.
//!
//! ```text
//! plan   finds windows (entered at their start alone) and cheaper forms; changes the ELF's bytes
//! prove  has a solver check each, on the bytes that were written; reverts what is not proved
//! ```
//! No rule is trusted, no proof is about anything but what is written: both sides of a question are decoded
//! by ckb-vm's decoder. An ELF keeps its length, its symbols and the place of everything that has an address.
#![forbid(unsafe_code)]

mod arrange;
mod claims;
mod copies;
mod cost;
mod encode;
mod enumerate;
mod graph;
mod grow;
mod liveness;
mod memory;
mod patch;
mod plan;
mod question;
mod rewrite;
mod rules;
mod search;
mod simulate;
mod slots;
mod solver;
mod terms;
#[cfg(test)]
mod tests;
mod values;
mod windows;

use std::collections::BTreeMap;

use antares_program::ProgramError;

pub use arrange::Obstacle;
pub use plan::{Plan, plan};
pub use question::Statement;
pub use rewrite::{Left, Rewrite};
pub use rules::RewriteRule;
pub use solver::{QUESTION_S_MAX, Solver, SolverAnswer};

/// Why nothing was rewritten.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RewriteError {
    /// The ELF is no script.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// It has been found to read its own code.
    #[error("the script reads its own code at {pc:#x}, so it may notice that this has changed")]
    ReadsItself {
        /// The first instruction that does.
        pc: u64,
    },
    /// Code is in no part of the file, or in two.
    #[error("the file does not tell where the code at {pc:#x} comes from")]
    NoPlace {
        /// Where the code is.
        pc: u64,
    },
    /// What is to grow has no place.
    #[error("the script begins at {first:#x}: there is no room below it to grow")]
    NoRoom {
        /// Its first address.
        first: u64,
    },
}

/// What to rewrite.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// How many times instructions were executed, by address. Without it every window counts once.
    pub runs: Option<BTreeMap<u64, u64>>,
    /// Also rewrite what never ran.
    pub takes_all: bool,
    /// Rewrite although the script reads its own code.
    pub may_read_itself: bool,
    /// Also write functions again, below the script, with windows that are longer than they were.
    pub may_grow: bool,
}
