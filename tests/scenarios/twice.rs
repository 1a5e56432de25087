//! The same request twice: a request's name is remembered by nobody, and need not be, since equal runs have
//! equal answers.

use antares_proto::v1::{self, Tier};
use antares_tests::guests;

use crate::{
    client::{Client, inline, stored},
    server::Server,
};

/// What of an answer follows from the request.
fn told(answer: v1::ExecuteResponse) -> (v1::Verdict, String, String) {
    (answer.verdict.unwrap(), answer.request_id, answer.script_sha256)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_comes_twice_is_answered_twice_and_equally() {
    let data = tempfile::tempdir().unwrap();
    let elf = guests::bytes("fib-imc").unwrap();
    let request =
        |id: &str, tier| v1::ExecuteRequest { request_id: id.to_owned(), ..stored(&elf, &["20"], tier) };
    let mut answers = Vec::new();
    for restarted in [false, true] {
        let server = Server::start(&data);
        let mut client = Client::connect(&server).await;
        if !restarted {
            client.execute(inline(&elf, &["20"], Tier::Native)).await.unwrap();
        }
        // At once, and after the answer; natively and not.
        let calls = (0..16).map(|number| {
            let (mut client, tier) =
                (client.clone(), if number % 2 == 0 { Tier::Native } else { Tier::Interpreter });
            let request = request("one name", tier);
            async move { client.execute(request).await.unwrap() }
        });
        let mut these = futures_util::future::join_all(calls).await;
        these.push(client.execute(request("one name", Tier::Auto)).await.unwrap());
        assert!(server.metric("antares_executions_total{outcome=\"exit\"}") >= 17.0, "each of them is a run");
        answers.extend(these);
        assert_eq!(server.stop(), Some(0));
    }
    let ids: std::collections::HashSet<_> =
        answers.iter().map(|answer| answer.execution_id.clone()).collect();
    assert_eq!(ids.len(), answers.len(), "each run has a name of its own");
    let all: Vec<_> = answers.into_iter().map(told).collect();
    assert_eq!(all[0].1, "one name");
    assert!(all.iter().all(|one| *one == all[0]), "{all:?}");
}
