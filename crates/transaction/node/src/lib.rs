//! A CKB node's JSON-RPC: transactions, headers and blocks, each checked against its hash, and the mock
//! transactions that are made of them.
//!
//! ```text
//! ChainNode::transactions      hashes                   -> [FoundTransaction], batched
//! ChainNode::whole             a hash                   -> WholeTransaction, with witnesses that its block covers
//! ChainNode::headers           hashes                   -> [HeaderView]
//! ChainNode::block_at          a number                 -> CheckedBlock, with the cycles that the node knows
//! ChainNode::resolve           a transaction            -> MockTransaction: all cells, headers, extensions
//! BareTransaction::read   a file of a wallet       -> a transaction without its cells
//! ```
//! A node is believed as little as can be: whatever has a hash is hashed again. Cells are those that the
//! transactions of their out points made, so they are covered by hashes too, and never change. What a node
//! can still lie about is what is where in its chain, since nobody here checks its proof of work.
#![forbid(unsafe_code)]

mod bare;
mod blocks;
mod cache;
mod check;
mod error;
mod format;
pub mod limits;
mod node;
mod options;
mod resolve;
mod rpc;
mod shapes;
mod transport;
mod whole;

pub use bare::{BareError, BareTransaction};
pub use blocks::CheckedBlock;
pub use error::{NodeError, NodeRequest};
pub use format::BareFormat;
pub use node::{BlockPosition, ChainNode, ChainRules, FoundTransaction, LiveCell, TransactionState};
pub use options::NodeOptions;
pub use resolve::{ResolveError, Resolved};
pub use whole::WholeTransaction;
