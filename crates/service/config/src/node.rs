//! Section `[node]`.

use crate::{
    check::Checker,
    section::{MIB, section},
};

section! {
/// Where cells and headers of bare transactions come from.
"node": RawNode => NodeSection {
    /// A CKB node's JSON-RPC, `http://HOST:PORT` or the same with `https`, which cells and headers of bare
    /// transactions come from; empty refuses those. No other address is asked, also where the node names one.
    rpc: text;
    /// Transactions, headers and extensions that are kept in memory.
    cache_bytes_max: whole = 64 * MIB;
    /// Transactions whose cells are being got at once; more wait for as long as their calls have.
    lookups_max: count = 4;
    /// Of these, of one tenant.
    lookups_per_tenant_max: count = 3;
    /// Time for one request to the node and its whole answer.
    request_ms_max as request_time: time = 20_000;
    /// How often a request is sent that finds no node, or one that is busy.
    attempts_max: number_to(16) = 4;
}
}

impl RawNode {
    /// None where there is none. Its address may hold a secret.
    pub(crate) fn section(&self, checker: &mut Checker) -> Option<NodeSection> {
        let section = self.check(checker);
        if section.rpc.is_empty() {
            return None;
        }
        checker.url_of("node.rpc", &section.rpc, &["http", "https"]);
        Some(section)
    }
}
