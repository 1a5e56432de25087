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
    fixed cache_bytes_max: whole = 64 * MIB;
}
}

impl RawNode {
    /// `None` without a node. The URL may contain a secret.
    pub(crate) fn section(&self, checker: &mut Checker) -> Option<NodeSection> {
        let section = self.check(checker);
        if section.rpc.is_empty() {
            return None;
        }
        checker.url_of("node.rpc", &section.rpc, &["http", "https"]);
        Some(section)
    }
}
