//! Scripts that recovery cannot know become native over gRPC, alone and in transactions; whoever lies about them changes nothing.

use std::time::{Duration, Instant};

use antares_abi::{CompileOptions, Isa, Sha256Digest};
use antares_proto::v1::{self, Tier, VerifyOutcome, verify_transaction_request::Transaction};
use antares_tests::{guests, oracle, transactions::locked_by};
use bytes::Bytes;
use ckb_mock_tx_types::ReprMockTransaction;
use ckb_types::core::ScriptHashType;
use tonic::{Code, Status};

use crate::{
    client::{Client, reason, stored},
    server::{PATIENCE, Server},
};

/// Between two runs: what the first has found out travels while nobody waits for it.
const PAUSE: Duration = Duration::from_millis(20);

fn expected(elf: &[u8]) -> oracle::Run {
    let case = oracle::Case {
        elf: Bytes::copy_from_slice(elf),
        args: vec![Bytes::from_static(b"-")],
        options: CompileOptions { vm_version: 2, isa: Isa::of_version(2) },
        cycles_max: u64::MAX >> 1,
        code: None,
    };
    oracle::run(&case)
}

/// Runs until all is native; each run ends as the oracle says. Gives the number of runs.
async fn run_until_native(client: &mut Client, elf: &[u8], cycles: u64) -> usize {
    let end = Instant::now() + PATIENCE;
    for run in 1.. {
        let answer = client.execute(stored(elf, &["-"], Tier::Auto)).await.unwrap();
        let (verdict, tiers) = (answer.verdict.as_ref().unwrap(), answer.tiers.as_ref().unwrap());
        assert_eq!((verdict.cycles, verdict.error.as_str()), (cycles, ""), "{answer:?}");
        if tiers.native_cycles == cycles {
            return run;
        }
        assert!(Instant::now() < end, "not native after {run} runs");
        tokio::time::sleep(PAUSE).await;
    }
    unreachable!("runs do not end")
}

fn lie(elf: &[u8], number: u64) -> v1::LearnRequest {
    // Others each time: only the number of rounds ends it.
    let targets = (0..32).map(|at| u32::try_from(0x1_0000 + 2 * (number * 32 + at)).unwrap());
    v1::LearnRequest {
        script_sha256: Sha256Digest::of(elf).to_string(),
        targets: targets.map(|target| target | u32::from(target % 3 == 0)).collect(),
        ..v1::LearnRequest::default()
    }
}

async fn learn(client: &Client, request: v1::LearnRequest) -> Result<String, Status> {
    Ok(client.compiler.clone().learn(request).await?.into_inner().hints_sha256)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_is_native_after_a_few_runs_and_after_a_restart() {
    let data = tempfile::tempdir().unwrap();
    let elf = guests::hidden().unwrap();
    let cycles = expected(&elf).cycles;
    let server = Server::start(&data);
    let mut client = Client::connect(&server).await;
    client.upload(&elf).await.unwrap();
    let first = client.execute(stored(&elf, &["-"], Tier::Auto)).await.unwrap();
    assert_eq!(first.tiers.unwrap().native_cycles, 0);
    run_until_native(&mut client, &elf, cycles).await;
    assert!(server.metric("antares_hints_total{result=\"learnt\"}") >= 1.0);
    drop(client);
    assert_eq!(server.stop(), Some(0));

    let server = Server::start(&data);
    let mut client = Client::connect(&server).await;
    assert_eq!(run_until_native(&mut client, &elf, cycles).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_teaches_too() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(&data);
    let client = Client::connect(&server).await;
    let mock = locked_by(&[guests::hidden().unwrap().into()], ScriptHashType::Data2).unwrap();
    let json = serde_json::to_vec(&ReprMockTransaction::from(mock.as_ckb().clone())).unwrap();
    let mut cycles = None;
    let end = Instant::now() + PATIENCE;
    loop {
        let request = v1::VerifyTransactionRequest {
            transaction: Some(Transaction::MockJson(json.clone().into())),
            ..v1::VerifyTransactionRequest::default()
        };
        let answer = client.runner.clone().verify_transaction(request).await.unwrap().into_inner();
        // It exits with what it has computed.
        assert_eq!(answer.outcome(), VerifyOutcome::Failed, "{answer:?}");
        assert_eq!(*cycles.get_or_insert(answer.cycles), answer.cycles);
        let tiers = answer.groups[0].tiers.as_ref().unwrap();
        if tiers.interpreted_cycles == 0 {
            return;
        }
        assert!(Instant::now() < end, "not native yet");
        tokio::time::sleep(PAUSE).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lies_and_floods_change_nothing_but_time() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(&data);
    let mut client = Client::connect(&server).await;
    let elf = guests::hidden().unwrap();
    let cycles = expected(&elf).cycles;
    let unknown = learn(&client, lie(&elf, 0)).await.unwrap_err();
    assert_eq!((unknown.code(), reason(&unknown).as_str()), (Code::NotFound, "SCRIPT_NOT_FOUND"));
    client.upload(&elf).await.unwrap();
    let flood = v1::LearnRequest { targets: vec![2; 4097], ..lie(&elf, 0) };
    let refused = learn(&client, flood).await.unwrap_err();
    assert_eq!((refused.code(), reason(&refused).as_str()), (Code::InvalidArgument, "TOO_MANY_HINTS"));
    let mut digests = Vec::new();
    for number in 0..20 {
        digests.push(learn(&client, lie(&elf, number)).await.unwrap());
        let answer = client.execute(stored(&elf, &["-"], Tier::Auto)).await.unwrap();
        assert_eq!(answer.verdict.unwrap().cycles, cycles);
    }
    digests.dedup();
    // Its own runs learn as well.
    assert!((2..=8).contains(&digests.len()), "{} changes", digests.len());
    let count = |result: &str| server.metric(&format!("antares_hints_total{{result=\"{result}\"}}"));
    assert!(count("left_alone") >= 12.0 && count("learnt") <= 8.0);
}
