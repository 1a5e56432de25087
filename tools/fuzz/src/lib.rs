//! Fuzzes scripts: runs a transaction repeatedly with other bytes in some of its fields.
//!
//! ```text
//! Executor         one run: the transaction with an input's bytes, on a machine that counts coverage
//! Invariants       the conditions for findings
//! Changes          the corpus, and mutations: havoc of libafl, molecule tables, constants, branch operands
//! fuzz             runs mutated inputs, and retains those with new coverage, until stopped
//! minimise         a finding with fewer bytes
//! ```
//! Random numbers and byte mutations are libafl's. No file or clock influences the results: the same job has
//! the same runs. The caller of [`fuzz()`] sandboxes the process and stores files.

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

pub use error::FuzzError;
pub use executor::{End, Executor, Machines, Ran};
pub use fuzz::{Parent, fuzz};
pub use input::FuzzInput;
pub use molecule::Table;
