//! Drawn transactions over gRPC: the service says what ckb-script says.

use antares_proto::v1::{self, Tier, VerifyOutcome, verify_transaction_request::Transaction};
use antares_tests::transaction_campaign::{Images, Limit, compare, draw};
use ckb_mock_tx_types::ReprMockTransaction;

use crate::{client::Client, server::Server};

/// How many are sent; the first ones of a seed that can be.
const SCENARIOS: usize = 50;
/// The limit, which scenarios with another one are not sent with.
const CYCLES_MAX: u64 = 30_000_000;
/// So much of an error's text is compared: it is cut where it is very long.
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

/// Sends what is drawn to a server with these `sections` of configuration.
async fn equal(sections: &str) -> Server {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start_with(&data, sections);
    let client = Client::connect(&server).await;
    let images = Images::get().unwrap();
    // Without more words the service takes all versions for active.
    let drawn = (0..).map(|number| (number, draw(images, 11, number)));
    let fitting = drawn.filter(|(_, drawn)| drawn.newest == 2 && drawn.limit == Limit::Wide);
    let mut swapped = 0;
    for (number, scenario) in fitting.take(SCENARIOS) {
        let agreed = compare(images, &scenario).unwrap();
        let agreed = agreed.unwrap_or_else(|difference| panic!("scenario {number}: {difference}"));
        let repr = ReprMockTransaction::from(scenario.mock(images).unwrap().as_ckb().clone());
        let request = v1::VerifyTransactionRequest {
            transaction: Some(Transaction::MockJson(serde_json::to_vec(&repr).unwrap().into())),
            tier: Tier::Native.into(),
            limits: Some(v1::RunLimits { max_cycles: Some(CYCLES_MAX), ..v1::RunLimits::default() }),
            ..v1::VerifyTransactionRequest::default()
        };
        let answer = client.runner.clone().verify_transaction(request).await.unwrap().into_inner();
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
        swapped += u64::from(agreed.swaps > 0);
    }
    assert!(swapped > 2, "VMs were put aside in {swapped} scenarios only");
    server
}
