//! A chain and a node of the tests' own: one that is slow, breaks off, lies or reorganises when told to.
//!
//! ```text
//! Chain        blocks with true roots and hashes, and what their transactions took
//! Chain::embed a mock transaction  -> a transaction of the chain, with its cells in blocks before it
//! TestNode     a node's JSON-RPC over a chain, with faults of two kinds: on the wire, and in answers
//! ```
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "tests alone use it")]

mod chain;
mod methods;
mod mock;
mod server;

pub use chain::Chain;
pub use mock::{elf, exits, json, locked_by};
pub use server::{Fault, TestNode};
