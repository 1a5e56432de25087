//! The section `node` as it is written.

use serde::{Deserialize, Serialize};

/// Section `[node]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RawNode {
    /// A CKB node's JSON-RPC, `http://HOST:PORT` or the same with `https`, which cells and headers of bare
    /// transactions come from; empty refuses those. No other address is asked, also where the node names one.
    pub rpc: String,
    /// Transactions, headers and extensions that are kept in memory, bytes.
    pub cache_bytes_max: u64,
    /// Transactions whose cells are being got at once; more wait for as long as their calls have.
    pub lookups_max: u64,
    /// Of these, of one tenant.
    pub lookups_per_tenant_max: u64,
    /// Time for one request to the node and its whole answer, milliseconds.
    pub request_ms_max: u64,
    /// How often a request is sent that finds no node, or one that is busy.
    pub attempts_max: u64,
}

impl Default for RawNode {
    fn default() -> Self {
        Self {
            rpc: String::new(),
            cache_bytes_max: 64 << 20,
            lookups_max: 4,
            lookups_per_tenant_max: 3,
            request_ms_max: 20_000,
            attempts_max: 4,
        }
    }
}
