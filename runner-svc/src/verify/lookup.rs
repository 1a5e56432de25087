//! Cells and headers of bare transactions, from the server's own node.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};

use antares_config::NodeSection;
use antares_node::{BareFormat, BareTransaction, ChainNode, NodeError, NodeOptions, ResolveError, Resolved};
use antares_serve::{Fault, Metrics, chain};
use bytes::Bytes;
use ckb_types::{core::TransactionView, packed::Byte32, prelude::*};
use parking_lot::Mutex;
use prometheus::IntCounterVec;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::{
    grpc::status::transaction_fault,
    limits::{LOOKUPS_MAX, LOOKUPS_PER_TENANT_MAX, NODE_ATTEMPTS_MAX, NODE_REQUEST_TIME_MAX},
    tenant::Tenant,
    verify::parts::{CellPart, DataPart, DepPart, Parts},
};

/// How long a caller should wait for an unresponsive node.
const RETRY_NODE: Duration = Duration::from_secs(2);

/// Longest such wait if the node requests one.
const RETRY_NODE_MAX: Duration = Duration::from_secs(3_600);

/// Longest backoff between attempts.
const BACKOFF_MAX: Duration = Duration::from_secs(2);

/// Bytes of one response of the node: larger than any transaction of a block, even the first, in hexadecimal.
/// Calls whose combined responses are longer are sent one after another.
const ANSWER_BYTES_MAX: usize = 8 << 20;

/// Results of a lookup. A lookup that the call's deadline ends does not count.
const RESULTS: [&str; 5] = ["ok", "invalid", "unknown", "unavailable", "wrong"];

/// The node, if any, and the limits on its use.
pub(crate) struct Lookups {
    node: Option<Node>,
    results: IntCounterVec,
}

struct Node {
    node: ChainNode,
    places: Semaphore,
    /// Semaphores of active tenants.
    tenants: Mutex<HashMap<String, Weak<Semaphore>>>,
}

impl Lookups {
    /// Lookups at the node in `section`. Does not contact it yet.
    pub(crate) fn new(section: Option<&NodeSection>, metrics: &Metrics) -> Result<Self, NodeError> {
        let help = "Lookups of cells of bare transactions at the node, by result.";
        let results = metrics.counters_of("antares_node_lookups_total", help, "result", &RESULTS);
        Ok(Self { node: section.map(Node::new).transpose()?, results })
    }

    /// The transaction in `bare` with its cells, for `tenant`.
    pub(crate) async fn parts(
        &self,
        tenant: &Tenant,
        bare: Bytes,
        format: BareFormat,
    ) -> Result<Parts, Fault> {
        let Some(node) = &self.node else {
            let problem = "this server has no node (node.rpc): send the transaction with its cells";
            return Err(Fault::precondition("NODE_MISSING", problem));
        };
        let own = node.of_tenant(tenant);
        // Neither is ever closed. The tenant's own permit comes first: waiting for it blocks no other tenant.
        let (_own, _place) = (taken(&own).await, taken(&node.places).await);
        let looked_up = async {
            let BareTransaction(transaction) =
                BareTransaction::read(&bare, format).map_err(|error| invalid("bare", &error.to_string()))?;
            let resolved = node.node.resolve_for_scripts(&transaction).await;
            resolved
                .map(|resolved| parts(&transaction, resolved))
                .map_err(|error| public_problem(&error, format))
        };
        let result = looked_up.await;
        let name = result.as_ref().map_or_else(|failed| failed.result, |_| "ok");
        self.results.with_label_values(&[name]).inc();
        result.map_err(|failed| failed.fault)
    }
}

impl Node {
    fn new(section: &NodeSection) -> Result<Self, NodeError> {
        let options = NodeOptions {
            call_time: NODE_REQUEST_TIME_MAX,
            connect_time: NODE_REQUEST_TIME_MAX.min(antares_node::limits::CONNECT_TIME_MAX),
            attempts: NODE_ATTEMPTS_MAX,
            backoff_max: BACKOFF_MAX,
            answer_bytes_max: ANSWER_BYTES_MAX,
            memory_bytes_max: section.cache_bytes_max,
            ..NodeOptions::default()
        };
        Ok(Self {
            node: ChainNode::new(&section.rpc, options)?,
            places: Semaphore::new(LOOKUPS_MAX),
            tenants: Mutex::default(),
        })
    }

    fn of_tenant(&self, tenant: &Tenant) -> Arc<Semaphore> {
        let mut tenants = self.tenants.lock();
        let name = tenant.account.tenant();
        if let Some(known) = tenants.get(name).and_then(Weak::upgrade) {
            return known;
        }
        tenants.retain(|_, places| places.strong_count() > 0);
        let places = Arc::new(Semaphore::new(LOOKUPS_PER_TENANT_MAX));
        tenants.insert(name.to_owned(), Arc::downgrade(&places));
        places
    }
}

async fn taken(places: &Semaphore) -> Option<SemaphorePermit<'_>> {
    places.acquire().await.ok()
}

/// A failed lookup.
struct Failed {
    fault: Fault,
    result: &'static str,
}

fn invalid(path: &str, problem: &str) -> Failed {
    Failed { fault: transaction_fault(path, problem), result: "invalid" }
}

/// The error for the caller, with the keys of its `format`. Only the log has the node's address and messages:
/// they may contain secrets.
fn public_problem(error: &ResolveError, format: BareFormat) -> Failed {
    let reworded = |path: &str| format.reworded(path.to_owned());
    let (path, source) = match error {
        ResolveError::ChainNode(source) => (None, source),
        ResolveError::At { path, source } => (Some(reworded(path)), source),
        ResolveError::NoSuchOutput { path, .. } | ResolveError::NoGroup { path, .. } => {
            return invalid(&reworded(path), &reworded(&error.to_string()));
        }
        ResolveError::TooMany { path, .. } => return invalid(&reworded(path), &reworded(&error.to_string())),
        ResolveError::Cellbase => return invalid("bare", &error.to_string()),
    };
    let at = path.as_ref().map(|path| format!("{path}: ")).unwrap_or_default();
    if let NodeError::Unknown { request, .. } = source {
        let kind = if request.method.contains("header") { "header" } else { "transaction" };
        let fault = Fault::not_found("CELL_NOT_FOUND", kind, request.of.clone());
        let problem = "the node does not know it, or not yet";
        let fault = fault.reworded(format!("{at}{kind} {}: {problem}", request.of));
        return Failed {
            fault: fault.violation(path.as_deref().unwrap_or("bare"), problem),
            result: "unknown",
        };
    }
    tracing::warn!(error = chain(error), "a bare transaction's cells cannot be had from the node");
    if source.is_wrong() {
        let problem = format!("{at}the server's node gives no answer that can be believed");
        return Failed { fault: Fault::failed("NODE_WRONG", problem), result: "wrong" };
    }
    let problem = format!("{at}the server's node does not answer");
    let retry = source.retry_after().map_or(RETRY_NODE, |wait| wait.min(RETRY_NODE_MAX));
    Failed { fault: Fault::unavailable("NODE_UNAVAILABLE", problem, retry), result: "unavailable" }
}

/// `transaction` and its cells from the node, as parts.
fn parts(transaction: &TransactionView, resolved: Resolved) -> Parts {
    let info = resolved.mock.mock_info;
    let cell = |output: ckb_types::packed::CellOutput, data: Bytes, block: Option<Byte32>| CellPart {
        output: output.as_bytes(),
        data: DataPart::Inline(data),
        block_hash: block.map(Into::into),
    };
    Parts {
        tx: transaction.data().as_bytes(),
        inputs: info.inputs.into_iter().map(|input| cell(input.output, input.data, input.header)).collect(),
        cell_deps: info
            .cell_deps
            .into_iter()
            .map(|dep| DepPart {
                out_point: dep.cell_dep.out_point().as_bytes(),
                cell: cell(dep.output, dep.data, dep.header),
            })
            .collect(),
        headers: info.header_deps.iter().map(|header| header.data().as_bytes()).collect(),
        extensions: info.extensions.into_iter().map(|(hash, bytes)| (hash.into(), bytes)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use antares_serve::Account;

    use super::*;

    fn node() -> Node {
        let section = NodeSection { rpc: "http://127.0.0.1:1".to_owned(), cache_bytes_max: 0 };
        Node::new(&section).unwrap()
    }

    #[test]
    fn each_tenant_has_its_places_for_as_long_as_it_asks() {
        let node = node();
        let of = |name: &str| node.of_tenant(&Tenant { account: Account::named(name), ..Tenant::default() });
        let (first, other) = (of("first"), of("other"));
        let taken: Vec<_> = (0..3).map(|_| first.try_acquire().unwrap()).collect();
        assert!(of("first").try_acquire().is_err(), "it has all that one may have");
        assert!(other.try_acquire().is_ok());
        drop(taken);
        drop((first, other));
        drop(of("third"));
        assert_eq!(node.tenants.lock().len(), 1, "who asks no more is forgotten");
    }

    #[test]
    fn mistakes_are_reported_with_their_place() {
        let path = || "tx.inputs[1].previous_output".to_owned();
        for (error, field) in [
            (ResolveError::Cellbase, "bare"),
            (ResolveError::NoGroup { path: path(), detail: "short: 3".to_owned() }, &*path()),
            (
                ResolveError::TooMany { path: "tx.inputs", what: "entries", count: 2, count_max: 1 },
                "tx.inputs",
            ),
        ] {
            let failed = public_problem(&error, BareFormat::Node);
            let status = tonic::Status::from(failed.fault);
            let details = tonic_types::StatusExt::get_error_details(&status);
            assert_eq!(details.bad_request().unwrap().field_violations[0].field, field);
            assert_eq!(failed.result, "invalid");
        }
    }
}
