//! A CKB node's JSON-RPC: transactions, headers and blocks, each verified against its hash, and mock
//! transactions built from them.
//!
//! ```text
//! ChainNode::transactions      hashes                   -> [FoundTransaction], batched
//! ChainNode::whole             a hash                   -> WholeTransaction, with witnesses from its block
//! ChainNode::headers           hashes                   -> [HeaderView]
//! ChainNode::block_at          a number                 -> CheckedBlock, with the cycles that the node knows
//! ChainNode::resolve           a transaction            -> MockTransaction: all cells, headers, extensions
//! BareTransaction::read        a wallet's file          -> a transaction without its cells
//! ```
//! The node is not trusted: all data with a hash is hashed again. Cells come from the transactions of their out
//! points, so hashes cover them too, and they never change. The node can still lie about positions in its
//! chain, because this crate does not verify proof of work.

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
pub use node::{BlockPosition, ChainNode, ChainRules, FoundTransaction, TransactionState};
pub use options::NodeOptions;
pub use resolve::{ResolveError, Resolved};
pub use whole::WholeTransaction;
