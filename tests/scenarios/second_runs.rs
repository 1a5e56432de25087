//! Second runs of batches and transactions, at random or on request: they detect wrong native code. A caller
//! that requests one gets the correct answer, and pays for it.

use antares_proto::v1::{self, Recheck, Tier};
use antares_tests::guests;
use ckb_types::core::ScriptHashType;
use tempfile::TempDir;

use crate::{
    client::{Client, exit_code, locked, serving, stored, verification},
    contained::{CONSTANT, SECTIONS, mistake_a_constant, spoil},
    server::{Server, until},
};

/// Exit code of the script, and of its corrupted native code.
const RIGHT: i32 = 77;
const WRONG: i32 = 78;

/// Exit codes of a batch's runs, of a transaction's groups, or of the one run; and the result of the second
/// run.
type Told = (Vec<Option<i32>>, Recheck);

/// Makes a call of each kind, with a second run if `recheck`.
async fn reported(client: &Client, elf: &[u8], kind: usize, recheck: bool) -> Told {
    let run = v1::ExecuteRequest { recheck, ..stored(elf, &[], Tier::Auto) };
    if kind == 0 {
        let answer = client.execute(run).await.unwrap();
        (vec![exit_code(&answer)], answer.recheck())
    } else if kind == 1 {
        let inputs = vec![v1::Input::default(); 3];
        let batch = v1::ExecuteBatchRequest { script: run.script, inputs, recheck, ..Default::default() };
        let answer = client.runner.clone().execute_batch(batch).await.unwrap().into_inner();
        let codes = answer.results.iter().map(|result| result.verdict.as_ref().unwrap().exit_code);
        (codes.collect(), answer.recheck())
    } else {
        let json = locked(&[elf.to_vec().into()], ScriptHashType::Data2);
        let request = v1::VerifyTransactionRequest { recheck, ..verification(json, Tier::Auto) };
        let answer = client.verify(request).await.unwrap();
        (answer.groups.iter().map(|group| group.exit_code).collect(), answer.recheck())
    }
}

/// Starts the server again with wrong native code.
async fn spoilt(data: &TempDir, server: Server, elf: &[u8], sections: &str) -> (Server, Client) {
    server.stop();
    spoil(data, elf, mistake_a_constant);
    let server = Server::start_with(data, sections);
    let client = Client::connect(&server).await;
    (server, client)
}

/// Runs in an answer of each kind of call.
const RUNS: [usize; 3] = [1, 3, 1];

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_gets_the_interpreter_s_answer() {
    let elf = guests::assemble(CONSTANT).unwrap();
    let sections = format!("{SECTIONS}[runner]\nrecheck_one_in = 0\n");
    for (kind, runs) in RUNS.into_iter().enumerate() {
        let (data, server, client) = serving(&sections).await;
        client.upload(&elf).await.unwrap();
        let right = vec![Some(RIGHT); runs];
        assert_eq!(reported(&client, &elf, kind, false).await, (right.clone(), Recheck::Unspecified));
        let cycles = || server.metric("antares_tenant_guest_cycles_total{tenant=\"none\"}");
        let of_one = cycles();
        assert!(of_one > 0.0);
        assert_eq!(reported(&client, &elf, kind, true).await, (right.clone(), Recheck::Equal));
        assert_eq!(cycles(), 3.0 * of_one, "both runs are charged, of one more call");
        assert_eq!(server.result("rechecks_total", "equal"), 1.0);
        let (server, client) = spoilt(&data, server, &elf, &sections).await;
        let wrong = (vec![Some(WRONG); runs], Recheck::Unspecified);
        assert_eq!(reported(&client, &elf, kind, false).await, wrong);
        assert_eq!(reported(&client, &elf, kind, true).await, (right.clone(), Recheck::Different));
        assert_eq!(server.metric("antares_artifacts_quarantined"), 1.0);
        // Native code is gone, so there is nothing to compare.
        assert_eq!(reported(&client, &elf, kind, true).await, (right, Recheck::Unspecified));
        server.stop();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lot_falls_on_calls_of_every_kind() {
    let elf = guests::assemble(CONSTANT).unwrap();
    let sections = format!("{SECTIONS}[runner]\nrecheck_one_in = 1\n");
    for (kind, runs) in RUNS.into_iter().enumerate() {
        let (data, server, client) = serving(&sections).await;
        client.upload(&elf).await.unwrap();
        let right = (vec![Some(RIGHT); runs], Recheck::Unspecified);
        assert_eq!(reported(&client, &elf, kind, false).await, right);
        until("it is run again", || server.result("rechecks_total", "equal") == 1.0);
        assert_eq!(server.metric("antares_artifacts_quarantined"), 0.0);
        let (server, client) = spoilt(&data, server, &elf, &sections).await;
        let wrong = (vec![Some(WRONG); runs], Recheck::Unspecified);
        assert_eq!(reported(&client, &elf, kind, false).await, wrong);
        until("the difference is counted", || server.result("rechecks_total", "different") == 1.0);
        assert_eq!(server.metric("antares_artifacts_quarantined"), 1.0);
        assert_eq!(reported(&client, &elf, kind, false).await, right);
        server.stop();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn compiles_that_are_made_again_give_the_same_bytes() {
    let (_data, server, client) = serving("[compiler]\nrecompile_one_in = 1\n").await;
    // Scripts of one part and of two, with both generators.
    for name in ["fib-imc", "rsa1024-imc"] {
        let elf = guests::bytes(name).unwrap();
        client.upload(&elf).await.unwrap();
        client.execute(stored(&elf, &["1"], Tier::Native)).await.unwrap();
    }
    let count = |result: &str| server.result("recompiles_total", result);
    until("all are made again, or had no turn", || count("equal") + count("passed_over") > 3.5);
    assert!(count("equal") > 0.5 && count("different") < 0.5);
}
