//! Diagnoses that clients request for failed runs and transactions: the same text as on the command line,
//! computed in the sandbox, within limits, at the client's expense.

use std::time::Duration;

use antares_diagnosis::Diagnosis;
use antares_proto::v1::{
    self, Outcome, Tier, VerifyOutcome, execute_session_request::Message as Input,
    execute_session_response::Message as Answer, shared_transaction,
    shared_transaction_result::Result as Shared, verify_session_request::Message,
};
use antares_tests::guests::{self, failing};
use bytes::Bytes;
use ckb_types::core::ScriptHashType;
use tonic::Request;

use crate::{
    batches::{batch, begun, message, session},
    client::{self, exit_code, inline, locked, serving},
    verify_sessions::{open, result, send},
};

/// Limit of diagnoses in one batch.
const OF_BATCH: usize = 8;
/// Limit of a diagnosis, bytes.
const BYTES_MAX: usize = 256 << 10;

const ENDLESS: &str = ".globl _start\n_start: j _start\n";

fn asking(elf: &[u8], args: &[&str], tier: Tier) -> v1::ExecuteRequest {
    v1::ExecuteRequest { diagnosis: true, ..inline(elf, args, tier) }
}

/// A transaction whose lock is a case of the failing guest.
fn json(case: &str, is_stripped: bool) -> Bytes {
    let deps = [Bytes::from(failing(case, is_stripped).unwrap()), Bytes::from_static(b"xyz")];
    locked(&deps, ScriptHashType::Data2).into()
}

fn verification(json: Bytes) -> v1::VerifyTransactionRequest {
    v1::VerifyTransactionRequest { diagnosis: true, ..client::verification(json, Tier::Auto) }
}

/// Text of the diagnosis, which must exist.
#[track_caller]
fn read(diagnosis: Option<&v1::Diagnosis>) -> Diagnosis {
    let reported = diagnosis.expect("it failed");
    assert_eq!(reported.missing, "", "{reported:?}");
    assert!(reported.json.len() <= BYTES_MAX);
    let read = Diagnosis::from_json(&reported.json).unwrap();
    assert_eq!(read.summary, reported.summary);
    read
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_run_says_why_and_pays_for_it() {
    let (_data, server, client) = serving("").await;
    let elf = failing("RETURNED", false).unwrap();
    let cycles = || server.metric("antares_tenant_guest_cycles_total{tenant=\"none\"}");
    let reported = |result: &str| server.result("diagnoses_total", result);
    let silent = client.execute(inline(&elf, &[], Tier::Native)).await.unwrap();
    assert_eq!((exit_code(&silent), silent.diagnosis), (Some(7), None));
    let of_one = cycles();
    assert!(of_one > 0.0 && reported("told") == 0.0);
    for tier in [Tier::Native, Tier::Interpreter] {
        let answer = client.execute(asking(&elf, &[], tier)).await.unwrap();
        assert_eq!(answer.verdict, silent.verdict);
        let why = read(answer.diagnosis.as_ref());
        let start = "exit code 7, decided in check_amount (/guests/failing/failing.c:40";
        assert!(why.summary.starts_with(start), "{}", why.summary);
        assert!(why.branch.is_some() && why.registers.len() == 32 && !why.steps.is_empty(), "{why:?}");
        assert!(why.source.is_empty() && !why.is_shortened);
    }
    assert_eq!((cycles(), reported("told")), (5.0 * of_one, 2.0), "both runs are charged");
    // A stripped script has the same address.
    let stripped = failing("RETURNED", true).unwrap();
    let answer = client.execute(asking(&stripped, &[], Tier::Auto)).await.unwrap();
    let why = read(answer.diagnosis.as_ref());
    assert!(!why.has_names && why.summary.contains("decided in fn_0x"), "{}", why.summary);
    // A successful script runs once.
    let before = cycles();
    let good = guests::bytes("exit-imc").unwrap();
    let answer = client.execute(asking(&good, &["0"], Tier::Auto)).await.unwrap();
    assert_eq!((exit_code(&answer), answer.diagnosis), (Some(0), None));
    assert_eq!(reported("told"), 3.0);
    let alone = client.execute(inline(&good, &["0"], Tier::Auto)).await.unwrap();
    assert!(alone.diagnosis.is_none());
    let both = cycles() - before;
    assert_eq!(both, 2.0 * f64::from(u32::try_from(alone.verdict.unwrap().cycles).unwrap()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_transaction_says_why() {
    let (_data, _server, client) = serving("").await;
    let cases: [(&str, &[&str]); 2] = [
        ("NO_WITNESS", &["exit code -5", "load_witness(index 3, source Input"]),
        ("CHILD_TRAPS", &["MemOutOfBound", "in child (", "[spawn #1]", "parent ("]),
    ];
    for (case, expected) in cases {
        let answer = client.verify(verification(json(case, false))).await.unwrap();
        assert_eq!(answer.outcome(), VerifyOutcome::Failed, "{case}");
        let text = read(answer.diagnosis.as_ref()).to_text();
        for part in expected {
            assert!(text.contains(part), "{case} lacks {part:?}:\n{text}");
        }
    }
    let answer = client.verify(verification(json("NO_WITNESS", true))).await.unwrap();
    let why = read(answer.diagnosis.as_ref());
    assert!(!why.has_names && why.system_call.is_some(), "{}", why.summary);
    // An accepted transaction has none; nor has one without a request for it.
    let good = locked(&[guests::bytes("exit-imc").unwrap().into()], ScriptHashType::Data2);
    let answer = client.verify(verification(good.into())).await.unwrap();
    assert_eq!((answer.outcome(), answer.diagnosis), (VerifyOutcome::Ok, None));
    let silent = v1::VerifyTransactionRequest { diagnosis: false, ..verification(json("NO_WITNESS", false)) };
    let answer = client.verify(silent).await.unwrap();
    assert_eq!((answer.outcome(), answer.diagnosis), (VerifyOutcome::Failed, None));
}

/// A script that calls itself under a long name, prints in each call, and fails.
fn verbose() -> Vec<u8> {
    let name = format!("long_{}", "x".repeat(500));
    let text = format!(
        ".globl _start\n_start: li s0, 100\n call {name}\n li a0, 5\n li a7, 93\n ecall\n\
         .globl {name}\n.type {name}, @function\n{name}: addi sp, sp, -16\n sd ra, 0(sp)\n la a0, line\n \
         li a7, 2177\n ecall\n addi s0, s0, -1\n beqz s0, 1f\n call {name}\n1: ld ra, 0(sp)\n addi sp, sp, 16\n ret\n\
         .size {name}, . - {name}\n.section .rodata\nline: .asciz \"{}\"\n",
        "y".repeat(200)
    );
    guests::assemble(&text).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_reported_is_bounded_in_bytes_and_time() {
    let (_data, server, client) = serving("").await;
    // Half a megabyte of names and calls, and more output than a response may have.
    let elf = verbose();
    let limits = v1::RunLimits { debug_bytes_max: Some(1000), ..Default::default() };
    let asked = v1::ExecuteRequest { limits: Some(limits), ..asking(&elf, &[], Tier::Auto) };
    let answer = client.execute(asked).await.unwrap();
    let verdict = answer.verdict.as_ref().unwrap();
    assert_eq!((verdict.exit_code, verdict.debug.len(), verdict.debug_lines_left_out), (Some(5), 4, 96));
    let why = read(answer.diagnosis.as_ref());
    assert!(why.is_shortened, "{} bytes", answer.diagnosis.unwrap().json.len());
    assert_eq!(why.ending.exit_code, Some(5));
    // If too little time remains for the interpreter, the verdict is still returned.
    let endless = guests::assemble(ENDLESS).unwrap();
    let limits = v1::RunLimits { max_cycles: Some(3_000_000_000), ..Default::default() };
    let asked = v1::ExecuteRequest { limits: Some(limits), ..asking(&endless, &[], Tier::Native) };
    let mut asked = Request::new(asked);
    asked.set_timeout(Duration::from_secs(60));
    let answer = client.execute(asked).await.unwrap();
    assert_eq!(answer.verdict.as_ref().unwrap().outcome(), Outcome::CyclesExceeded);
    // A fast machine may finish in time.
    let missing = answer.diagnosis.unwrap().missing;
    assert!(["deadline", ""].contains(&missing.as_str()), "{missing}");
    let late = if missing.is_empty() { 0.0 } else { 1.0 };
    // Without remaining time, no diagnosis is possible.
    let limits = v1::RunLimits { deadline_ms: Some(1), ..Default::default() };
    let asked = v1::ExecuteRequest { limits: Some(limits), ..asking(&endless, &[], Tier::Native) };
    let answer = client.execute(asked).await.unwrap();
    assert_eq!(answer.verdict.as_ref().unwrap().outcome(), Outcome::DeadlineExceeded);
    assert_eq!(answer.diagnosis.unwrap().missing, "unfinished");
    // A file that the VM does not load has not run.
    let answer = client.execute(asking(b"no ELF", &[], Tier::Interpreter)).await.unwrap();
    assert_eq!(answer.verdict.as_ref().unwrap().outcome(), Outcome::Error);
    assert_eq!(answer.diagnosis.unwrap().missing, "nothing_ran");
    for (result, count) in
        [("told", 2.0 - late), ("deadline", late), ("unfinished", 1.0), ("nothing_ran", 1.0)]
    {
        assert_eq!(server.result("diagnoses_total", result), count, "{result}");
    }
}

/// Failed or not for each result of a batch or session, with its diagnosis.
#[track_caller]
fn first_few(results: &[v1::BatchResult]) {
    let mut reported = 0;
    for (result, number) in results.iter().zip(0..) {
        assert_eq!(result.verdict.as_ref().unwrap().exit_code, Some(number % 3));
        match &result.diagnosis {
            None => assert_eq!(number % 3, 0),
            Some(diagnosis) if reported < OF_BATCH => {
                assert_eq!(read(Some(diagnosis)).ending.exit_code.map(i32::from), Some(number % 3));
                reported += 1;
            }
            Some(diagnosis) => assert_eq!(diagnosis.missing, "too_many"),
        }
    }
    assert_eq!(reported, OF_BATCH);
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_and_sessions_tell_of_the_first_few() {
    let (_data, _server, client) = serving("").await;
    let args: Vec<_> = (0..18).map(|number| (number % 3).to_string()).collect();
    let batch = batch(&guests::bytes("exit-imc").unwrap(), &args, Tier::Auto);
    let asking = v1::ExecuteBatchRequest { diagnosis: true, ..batch.clone() };
    first_few(&client.runner.clone().execute_batch(asking).await.unwrap().into_inner().results);
    let silent = client.runner.clone().execute_batch(batch.clone()).await.unwrap().into_inner();
    assert!(silent.results.iter().all(|result| result.diagnosis.is_none()));
    // Inputs sent one by one are each within the limit.
    let start = v1::SessionStart { script: batch.script, diagnosis: true, ..Default::default() };
    let (send, mut answers) = session(&client, message(Input::Start(start))).await;
    begun(&mut answers).await;
    for (input, id) in batch.inputs.into_iter().zip(0..) {
        let input = v1::SessionInput { id, input: Some(input) };
        send.send(message(Input::Input(input))).await.unwrap();
        let Some(Answer::Result(result)) = answers.message().await.unwrap().unwrap().message else {
            panic!("a result")
        };
        let diagnosis = result.result.unwrap().diagnosis;
        match id % 3 {
            0 => assert_eq!(diagnosis, None),
            code => assert_eq!(u64::try_from(read(diagnosis.as_ref()).ending.exit_code.unwrap()), Ok(code)),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_of_a_batch_and_a_session_are_reported_too() {
    let (_data, _server, client) = serving("").await;
    let (bad, shared) =
        (json("NO_WITNESS", false), v1::VerifyShared { diagnosis: true, ..Default::default() });
    let one = |id: u64| v1::SharedTransaction {
        id,
        transaction: Some(shared_transaction::Transaction::MockJson(bad.clone())),
        ..Default::default()
    };
    let reported = |result: v1::SharedTransactionResult| match result.result {
        Some(Shared::Response(response)) => response.diagnosis.expect("it failed"),
        other => panic!("{other:?}"),
    };
    let transactions = (0..10).map(one).collect();
    let batch = v1::VerifyBatchRequest { shared: Some(shared.clone()), transactions };
    let results = client.runner.clone().verify_batch(batch).await.unwrap().into_inner().results;
    let all: Vec<_> = results.into_iter().map(reported).collect();
    let (missing, whole): (Vec<_>, Vec<_>) = all.iter().partition(|diagnosis| diagnosis.json.is_empty());
    assert_eq!((missing.len(), whole.len()), (2, OF_BATCH));
    assert!(missing.iter().all(|diagnosis| diagnosis.missing == "too_many"));
    assert!(whole.iter().all(|diagnosis| diagnosis.summary.contains("exit code -5")));
    // A session diagnoses all of them.
    let (sender, mut results) = open(&client, shared).await;
    for id in 0..10 {
        send(&sender, Message::Transaction(one(id))).await;
    }
    for _ in 0..10 {
        let diagnosis = reported(result(&mut results).await);
        assert!(read(Some(&diagnosis)).summary.contains("exit code -5"));
    }
}
