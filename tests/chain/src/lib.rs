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
mod server;

pub use chain::Chain;
pub use server::{Fault, TestNode};

/// A script that exits with `code`.
#[must_use]
pub fn exits(code: u8) -> Vec<u8> {
    const BASE: u64 = 0x10000;
    // addi a7, zero, 93; addi a0, zero, code; ecall
    let words = [0x05d0_0893, u32::from(code) << 20 | 0x513, 0x73_u32];
    let size = 120 + 4 * words.len() as u64;
    let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\xf3\0\x01\0\0\0".to_vec();
    elf.extend([BASE + 120, 64, 0].into_iter().flat_map(u64::to_le_bytes));
    elf.extend([1, 64 | 56 << 16, 1, 0].into_iter().flat_map(u32::to_le_bytes));
    elf.extend([1, 5].into_iter().flat_map(u32::to_le_bytes));
    elf.extend([0, BASE, BASE, size, size, 0x1000].into_iter().flat_map(u64::to_le_bytes));
    elf.extend(words.into_iter().flat_map(u32::to_le_bytes));
    elf
}
