//! Random transactions over gRPC: the service's results equal ckb-script's.

use std::{collections::HashSet, env, str::FromStr, sync::LazyLock};

use antares_proto::v1::{self, Tier, VerifyOutcome, shared_transaction};
use antares_tests::transaction_campaign::{Images, Limit, Scenario, compare, draw};
use bytes::Bytes;
use ckb_mock_tx_types::ReprMockTransaction;
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;

use crate::{
    client::{serving, verification},
    server::{PATIENCE, Server},
};

/// Seed; `ANTARES_DRAWN_SEED` overrides it.
static SEED: LazyLock<u64> = LazyLock::new(|| from_environment("ANTARES_DRAWN_SEED").unwrap_or(11));
/// Number of transactions to send: the first suitable ones of the seed.
const SCENARIOS: usize = 50;
/// Distance to the repetition of a transaction, within which a runner keeps its workers.
const AGAIN_AFTER: usize = 12;
/// The cycle limit; scenarios with another one are skipped.
const CYCLES_MAX: u64 = 30_000_000;
/// Compared prefix of an error's text, which is truncated if very long.
const DETAIL_CHARS: usize = 200;

#[tokio::test(flavor = "multi_thread")]
async fn drawn_transactions_are_equal_over_grpc() {
    equal("").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn drawn_transactions_are_equal_with_a_worker_for_each_group() {
    let server = equal("[runner]\ngroups_apart = true\n").await;
    let workers = server.metric("antares_workers_spawned_total{role=\"run\"}");
    assert!(workers > 1.3 * SCENARIOS as f64, "{workers} workers for {SCENARIOS} transactions");
}

/// Each is sent twice, so that the second finds used workers. Its servers are killed at the first quarter.
#[tokio::test(flavor = "multi_thread")]
async fn drawn_transactions_are_equal_through_a_session_with_warm_workers() {
    let count = from_environment("ANTARES_DRAWN_TRANSACTIONS").unwrap_or(SCENARIOS);
    let folders: [_; 2] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
    let mut servers: Vec<Server> = folders.iter().map(Server::start).collect();
    let urls = servers.iter().map(|server| format!("http://{}", server.address));
    let client = antares_client::Client::builder().servers(urls).build().unwrap();
    let images = Images::get().unwrap();
    let (sender, inputs) = mpsc::channel(1);
    tokio::spawn(async move {
        let drawn: Vec<_> = fitting(images).take(count).map(|(number, _)| number).collect();
        for some in drawn.chunks(AGAIN_AFTER) {
            for id in some.iter().map(|number| 2 * number).chain(some.iter().map(|number| 2 * number + 1)) {
                let json = json(images, &draw(images, *SEED, id / 2));
                let transaction = Some(shared_transaction::Transaction::MockJson(json));
                let one = v1::SharedTransaction { id, transaction, ..Default::default() };
                sender.send(one).await.unwrap();
            }
        }
    });
    let shared = v1::VerifyShared { tier: Tier::Native.into(), limits: Some(limits()), ..Default::default() };
    let mut session = client.verify_session(shared, ReceiverStream::new(inputs));
    let reused_by = |server: &Server| server.metric("antares_workers_reused_total{role=\"run\"}");
    let (mut ids, mut swapped, mut reused) = (HashSet::new(), 0, 0.0);
    while let Some(answer) = timeout(PATIENCE, session.next()).await.unwrap() {
        let answer = answer.unwrap();
        let (number, verdict) = (answer.id / 2, answer.result.unwrap());
        assert!(ids.insert(answer.id), "{} has two answers", answer.id);
        let check = move || expect(images, number, &draw(images, *SEED, number), verdict);
        swapped += usize::from(tokio::task::spawn_blocking(check).await.unwrap());
        if ids.len() == count / 2 {
            // Both, one after the other, so that the session's own server is among them.
            for (server, folder) in servers.iter_mut().zip(&folders) {
                reused += reused_by(server);
                server.die_and_return(folder);
            }
        }
    }
    assert_eq!(ids.len(), 2 * count);
    assert!(swapped > count / 25, "VMs were put aside in {swapped} scenarios only");
    reused += servers.iter().map(reused_by).sum::<f64>();
    assert!(reused > 0.0, "no worker was warm");
}

/// Sends random transactions to a server with these configuration `sections`.
async fn equal(sections: &str) -> Server {
    let (_data, server, client) = serving(sections).await;
    let images = Images::get().unwrap();
    let mut swapped = 0;
    for (number, scenario) in fitting(images).take(SCENARIOS) {
        let request = v1::VerifyTransactionRequest {
            limits: Some(limits()),
            ..verification(json(images, &scenario), Tier::Native)
        };
        let answer = client.verify(request).await.unwrap();
        swapped += u64::from(expect(images, number, &scenario, answer));
    }
    assert!(swapped > 2, "VMs were put aside in {swapped} scenarios only");
    server
}

fn from_environment<T: FromStr>(name: &str) -> Option<T> {
    env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Suitable scenarios with their numbers. By default, the service considers all versions active.
fn fitting(images: &Images) -> impl Iterator<Item = (u64, Scenario)> {
    let drawn = (0..).map(|number| (number, draw(images, *SEED, number)));
    drawn.filter(|(_, drawn)| drawn.newest == 2 && drawn.limit == Limit::Wide)
}

fn json(images: &Images, scenario: &Scenario) -> Bytes {
    let repr = ReprMockTransaction::from(scenario.mock(images).unwrap().as_ckb().clone());
    serde_json::to_vec(&repr).unwrap().into()
}

fn limits() -> v1::RunLimits {
    v1::RunLimits { max_cycles: Some(CYCLES_MAX), ..v1::RunLimits::default() }
}

/// Asserts that the answer equals ckb-script's; returns whether VMs were suspended.
fn expect(images: &Images, number: u64, scenario: &Scenario, answer: v1::VerifyTransactionResponse) -> bool {
    let agreed = compare(images, scenario).unwrap();
    let agreed = agreed.unwrap_or_else(|difference| panic!("scenario {number}: {difference}"));
    match agreed.verdict.result {
        Ok(cycles) => {
            assert_eq!((answer.outcome(), answer.cycles), (VerifyOutcome::Ok, cycles), "{number}");
        }
        Err(error) => {
            assert_eq!(answer.outcome(), VerifyOutcome::Failed, "{number}: {error}");
            let found = answer.groups.iter().find_map(|group| group.error.as_ref()).unwrap();
            let detail: String = found.detail.chars().take(DETAIL_CHARS).collect();
            assert!(error.contains(&detail), "{number}: {error}\n{detail}");
        }
    }
    let lines: Vec<String> = answer.groups.into_iter().flat_map(|group| group.debug).collect();
    assert_eq!(lines, agreed.verdict.debug, "{number}");
    agreed.swaps > 0
}
