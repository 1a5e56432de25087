//! A test chain and node, which can be slow, disconnect, lie or reorganise on request.
//!
//! ```text
//! Chain        blocks with valid roots and hashes, and the cycles of their transactions
//! Chain::embed a mock transaction  -> a transaction of the chain, with its cells in earlier blocks
//! TestNode     a node's JSON-RPC over a chain, with faults of two kinds: on the wire, and in answers
//! ```
#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "tests alone use it")]

mod chain;
mod methods;
mod mock;
mod server;

pub use chain::Chain;
pub use mock::{elf, exits, json, locked_by};
pub use server::{Fault, TestNode};
