//! Scripts under a fuzzer: a transaction runs again and again with other bytes in some of its fields.
//!
//! ```text
//! Executor         one run: the transaction with an input's bytes, on a machine that counts where it goes
//! Invariants       what of that is a finding
//! Mutator          other bytes: havoc of libafl, molecule tables, constants, what branches compared
//! fuzz             libafl's corpus, feedback and evaluation around these, until somebody stops it
//! minimise         a finding with fewer bytes
//! ```
//! Corpus, random numbers, byte mutations and the decision what is new are libafl's. Nothing here reads a
//! file or a clock for what it does: the same job gives the same runs. Where the process is locked in, and
//! who keeps files, is the business of whoever calls [`fuzz()`].
#![forbid(unsafe_code)]

mod constants;
mod counts;
mod error;
mod executor;
mod fuzz;
mod input;
pub mod job;
mod judge;
mod minimise;
mod molecule;
mod mutate;
mod operands;
mod queue;
mod state;

pub use error::FuzzError;
pub use executor::{End, Executor, Machines, Ran};
pub use fuzz::{Parent, fuzz};
pub use input::FuzzInput;
pub use molecule::Table;
