//! Section `[node]`.

use std::time::Duration;

use crate::{check::Checker, raw_config::RawConfig};

/// Most times that a request is sent.
const ATTEMPTS_MAX: u64 = 16;

/// The node that cells of bare transactions come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSection {
    /// Its address. It may hold a secret.
    pub rpc: String,
    /// Bytes that are kept in memory.
    pub cache_bytes_max: u64,
    /// Transactions at once.
    pub lookups_max: usize,
    /// Of these, of one tenant.
    pub lookups_per_tenant_max: usize,
    /// Time for one request and its answer.
    pub request_time: Duration,
    /// How often a request is sent.
    pub attempts_max: u32,
}

pub(crate) fn check_node(config: &RawConfig, checker: &mut Checker) -> Option<NodeSection> {
    let raw = &config.node;
    checker.range("node.attempts_max", raw.attempts_max, ATTEMPTS_MAX);
    let section = NodeSection {
        rpc: raw.rpc.clone(),
        cache_bytes_max: raw.cache_bytes_max,
        lookups_max: checker.count("node.lookups_max", raw.lookups_max),
        lookups_per_tenant_max: checker.count("node.lookups_per_tenant_max", raw.lookups_per_tenant_max),
        request_time: checker.time("node.request_ms_max", raw.request_ms_max),
        attempts_max: u32::try_from(raw.attempts_max).unwrap_or(u32::MAX),
    };
    if raw.rpc.is_empty() {
        return None;
    }
    checker.url_of("node.rpc", &raw.rpc, &["http", "https"]);
    Some(section)
}
