//! Bare transactions: their cells come from the server's node, which is slow, lies, stops, or reorganises.

use std::{fs, time::Duration};

use antares_chain::{Chain, Fault, TestNode};
use antares_proto::v1::{
    self, Tier, VerifyOutcome, shared_transaction, shared_transaction_result::Result as Shared,
    verify_transaction_request::Transaction,
};
use bytes::Bytes;
use ckb_mock_tx_types::{MockTransaction, ReprMockTransaction};
use ckb_types::{core::TransactionView, prelude::*};
use serde_json::json;
use tempfile::TempDir;
use tonic::{Code, Request, Status};

use crate::{
    client::{Client, is, serving, verification},
    server::{Server, antares, eventually},
    transactions::{example, mistake},
};

/// Must never appear in errors: it is part of the node's address.
const SECRET: &str = "key-of-the-operator";

/// A server with a node whose chain has the cells of ckb-debugger's example.
struct Place {
    _data: TempDir,
    node: TestNode,
    client: Client,
    server: Server,
    chain: Chain,
    transaction: TransactionView,
    /// The verdict with its cells, whose out points differ from the signed ones.
    expected: v1::VerifyTransactionResponse,
}

/// Disables the cache: each lookup queries the node.
const UNCACHED: &str = "[tuned]\nnode_cache_bytes_max = 0\n";

/// A request that has so much time.
fn of_bare(bare: Bytes, seconds: u64) -> Request<v1::VerifyTransactionRequest> {
    let transaction = Some(Transaction::Bare(bare));
    let mut request = Request::new(v1::VerifyTransactionRequest { transaction, ..Default::default() });
    request.set_timeout(Duration::from_secs(seconds));
    request
}

impl Place {
    async fn new(more: &str) -> Self {
        let mut chain = Chain::new();
        let mock: ReprMockTransaction = serde_json::from_slice(&example("mock_tx.json")).unwrap();
        let moved = chain.embed(&MockTransaction::from(mock));
        let node = TestNode::start(chain.clone());
        let section = format!("[node]\nrpc = \"{}/{SECRET}?{SECRET}\"\n{more}", node.url);
        let (data, server, client) = serving(&section).await;
        let transaction = moved.core_transaction();
        let expected = client.verify(verification(antares_chain::json(moved), Tier::Auto)).await.unwrap();
        assert!(expected.cycles > 1_000_000, "{expected:?}");
        Self { _data: data, node, client, server, chain, transaction, expected }
    }

    fn bare(&self) -> Bytes {
        self.transaction.data().as_bytes()
    }

    async fn verify(&self, bare: Bytes) -> Result<v1::VerifyTransactionResponse, Status> {
        self.client.verify(of_bare(bare, 120)).await.inspect_err(|status| {
            let details = String::from_utf8_lossy(status.details()).into_owned();
            assert!(!status.message().contains(SECRET) && !details.contains(SECRET), "{status:?}");
        })
    }

    async fn is_verified(&self) {
        self.is_expected(&self.verify(self.bare()).await.unwrap());
    }

    #[track_caller]
    fn is_expected(&self, answer: &v1::VerifyTransactionResponse) {
        let facts = |of: &v1::VerifyTransactionResponse| {
            let groups = of.groups.iter().map(|it| (it.script_hash.clone(), it.cycles, it.exit_code));
            (of.outcome(), of.cycles, groups.collect::<Vec<_>>())
        };
        assert_eq!(facts(answer), facts(&self.expected));
    }

    fn looked_up(&self, result: &str) -> f64 {
        self.server.result("node_lookups_total", result)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bare_transaction_is_enough() {
    let place = Place::new("").await;
    let bytes = place.bare();
    let digits = json!(ckb_jsonrpc_types::JsonBytes::from_bytes(bytes.clone()));
    let text = json!({ "transaction": ckb_jsonrpc_types::TransactionView::from(place.transaction.clone()) });
    for form in [bytes.clone(), digits.as_str().unwrap().to_owned().into(), text.to_string().into()] {
        place.is_expected(&place.verify(form).await.unwrap());
    }
    // Immutable data is fetched once.
    let asked = place.node.requests();
    place.is_verified().await;
    assert_eq!((place.node.requests(), place.looked_up("ok")), (asked, 4.0));
    // In a batch with others; lists of the table are only for fields.
    let transaction = Some(shared_transaction::Transaction::Bare(bytes));
    let one = v1::SharedTransaction { id: 1, transaction, ..Default::default() };
    let listed = v1::SharedTransaction { id: 2, cell_deps: vec![0], ..one.clone() };
    // In CCC's format.
    let ccc = camel(&text["transaction"].to_string());
    let transaction = Some(shared_transaction::Transaction::Bare(ccc.into()));
    let format = v1::TransactionFormat::Ccc.into();
    let of_ccc = v1::SharedTransaction { id: 3, transaction, format, ..Default::default() };
    let request = v1::VerifyBatchRequest { shared: None, transactions: vec![one, listed, of_ccc] };
    let answer = place.client.runner.clone().verify_batch(request).await.unwrap().into_inner();
    let results: Vec<_> = answer.results.into_iter().map(|result| result.result.unwrap()).collect();
    let [Shared::Response(first), Shared::Error(second), Shared::Response(third)] = &results[..] else {
        panic!("{results:?}")
    };
    place.is_expected(first);
    assert_eq!(second.reason, "REQUEST_INVALID");
    place.is_expected(third);
    // An invalid transaction names its field.
    let status = place.verify(Bytes::from_static(b"{\"cellDeps\":[]}")).await.unwrap_err();
    assert_eq!(mistake(&status), "bare");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_node_takes_no_longer_than_the_call_has_and_nothing_of_others() {
    let place = Place::new(UNCACHED).await;
    place.node.fail(std::iter::repeat_n(Fault::Silent, 4));
    // More calls than slots.
    let calls = (0..6).map(|_| place.client.verify(of_bare(place.bare(), 3)));
    // Calls that include their cells are served at the same time.
    let whole = place.client.verify(verification(example("mock_tx.json"), Tier::Auto));
    let (silent, answer) = tokio::join!(futures_util::future::join_all(calls), whole);
    assert_eq!(answer.unwrap().outcome(), VerifyOutcome::Ok);
    for answer in silent {
        // Either the client or the server notices first.
        let code = answer.unwrap_err().code();
        assert!([Code::DeadlineExceeded, Code::Cancelled].contains(&code), "{code:?}");
    }
    // The slots are free again, after the remaining silent responses.
    eventually("a transaction is verified", async || place.verify(place.bare()).await.is_ok()).await;
    place.is_verified().await;
}

/// JSON of a node with the keys of wallet libraries.
fn camel(text: &str) -> String {
    let keys = ["cell_deps", "header_deps", "outputs_data", "out_point", "tx_hash", "dep_type"];
    keys.into_iter().chain(["previous_output", "code_hash", "hash_type", "dep_group"]).fold(
        text.to_owned(),
        |text, key| {
            let (first, second) = key.split_once('_').unwrap();
            text.replace(key, &format!("{first}{}{}", second[..1].to_uppercase(), &second[1..]))
        },
    )
}

/// Status, standard output and standard error of `antares verify` about `text`.
fn command(text: &str, words: &[&str]) -> (Option<i32>, String, String) {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(&file, text).unwrap();
    let output = antares(&["verify", "--tx"]).arg(file.path()).args(words).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_leaves_the_cells_to_the_server() {
    let place = Place::new(UNCACHED).await;
    let there = ["--server", place.server.address.as_str(), "--json"];
    let json = json!(ckb_jsonrpc_types::Transaction::from(place.transaction.data()));
    let verdict = Some(i32::from(place.expected.outcome() != VerifyOutcome::Ok));
    let digits = json!(ckb_jsonrpc_types::JsonBytes::from_bytes(place.bare()));
    let forms =
        [json.to_string(), json!({ "transaction": json }).to_string(), digits.as_str().unwrap().into()];
    for text in forms {
        let (status, stdout, stderr) = command(&text, &there);
        let answer: serde_json::Value = serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{stderr}"));
        assert_eq!((status, answer["cycles"].as_u64()), (verdict, Some(place.expected.cycles)));
    }
    assert_eq!(place.looked_up("ok"), 3.0);
    // In Lumos's format.
    let lumos = camel(&json.to_string());
    let (status, _, stderr) = command(&lumos, &[&there[..], &["--format", "lumos"]].concat());
    assert_eq!(status, verdict, "{stderr}");
    // Errors include their location, before or after the server is called.
    let refused = |text: &str, words: &[&str], said: &str| {
        let (status, _, stderr) = command(text, words);
        assert!(stderr.contains(said), "{stderr}");
        status
    };
    let number = json.to_string().replacen("\"0x0\"", "0", 1);
    assert_eq!(refused(&number, &there, "a number stands where text is needed: `0`"), Some(2));
    assert_eq!(refused(&json.to_string(), &[], "comes without its cells: name a node with --rpc"), Some(2));
    let verbose = [&there[..], &["-vv"]].concat();
    assert_eq!(refused(&json.to_string(), &verbose, "name a node with --rpc"), Some(2));
    assert_eq!(refused("{}", &there, "the key `mock_info` is missing"), Some(2));
    let other = [&there[..], &["--format", "node"]].concat();
    assert_eq!(refused(&lumos, &other, "--format ccc or lumos"), Some(2));
    place.node.reorganise(place.chain.until(0));
    assert_eq!(refused(&json.to_string(), &there, "CELL_NOT_FOUND)\n  tx."), Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_node_the_cells_must_come_along() {
    let (_data, _server, client) = serving("").await;
    let status = client.verify(of_bare(Bytes::from_static(b"{}"), 120)).await.unwrap_err();
    is(&status, Code::FailedPrecondition, "NODE_MISSING");
    assert!(status.message().contains("node.rpc"));
}
