//! First runs of scripts whose compile takes long: the interpreter begins meanwhile.

use antares_proto::v1::{
    ExecuteResponse, Tier, VerifyOutcome, VerifyTransactionRequest, VerifyTransactionResponse,
    verify_transaction_request::Transaction,
};
use antares_tests::{guests, transactions::locked_by};
use ckb_mock_tx_types::ReprMockTransaction;
use ckb_types::core::ScriptHashType;
use futures_util::future::join_all;

use crate::{
    client::{Client, serving, stored},
    server::until,
};

/// 170 KB of code. With no argument it ends at once.
fn large() -> Vec<u8> {
    guests::assemble(
        &[".globl _start\n_start:\nld t0, 0(sp)\nbeqz t0, end\naddi t0, t0, -1\nbeqz t0, code\nli t1, 600000000\n", CODE].concat(),
    )
    .unwrap()
}

/// What counts down from `t1`, and 170 KB of code behind it.
const CODE: &str = "loop: addi t1, t1, -1\nbnez t1, loop\nli t0, 0\n\
     code:\n.rept 14000\nadd a0, a0, a1\nxor a1, a1, a0\nslli a1, a1, 3\nbeq a0, a1, 1f\naddi a0, a0, 3\n1:\n.endr\n\
     end:\nli a0, 0\nli a7, 93\necall\n";

/// Whether native code ran all of it; else the interpreter did.
fn is_native(answer: &ExecuteResponse) -> bool {
    let (verdict, tiers) = (answer.verdict.as_ref().unwrap(), answer.tiers.as_ref().unwrap());
    assert_eq!(verdict.exit_code, Some(0), "{answer:?}");
    let is_native = tiers.native_cycles > 0;
    assert_eq!(if is_native { tiers.interpreted_cycles } else { tiers.native_cycles }, 0, "{answer:?}");
    assert_eq!(answer.fallback, if is_native { "" } else { "compiling" }, "{answer:?}");
    is_native
}

#[tokio::test(flavor = "multi_thread")]
async fn who_comes_first_has_the_interpreter_s_answer_and_the_others_native_code() {
    let (_data, server, mut client) = serving("[runner]\nworkers_max = 16\n").await;
    let elf = large();
    client.upload(&elf).await.unwrap();
    let call = || {
        let (mut client, request) = (client.clone(), stored(&elf, &[], Tier::Auto));
        async move { client.execute(request).await.unwrap() }
    };
    let first = tokio::spawn(call());
    let told = || server.metric("antares_fallbacks_total{reason=\"compiling\"}");
    until("its compile has begun", || {
        server.metric("antares_workers_busy{role=\"compile\"}") > 0.5 || told() > 0.5
    });
    let others = join_all((0..8).map(|_| call())).await;
    let first = first.await.unwrap();
    assert!(!is_native(&first), "{first:?}");
    assert!(others.iter().all(is_native), "{others:?}");
    assert_eq!(told(), 1.0);
    let native = client.execute(stored(&elf, &[], Tier::Auto)).await.unwrap();
    assert!(is_native(&native));
    let interpreted = client.execute(stored(&elf, &[], Tier::Interpreter)).await.unwrap();
    let cycles = interpreted.verdict.unwrap().cycles;
    let answers = others.iter().chain([&first, &native]);
    assert!(answers.into_iter().all(|answer| answer.verdict.as_ref().unwrap().cycles == cycles));
}

/// A transaction whose lock goes through 170 KB of code; beside it lies a small program.
fn transaction() -> Vec<u8> {
    let large = guests::assemble(&format!(".globl _start\n_start:\nli t1, 1\n{CODE}")).unwrap();
    let small = guests::assemble(".globl _start\n_start:\nli a7, 93\necall\n").unwrap();
    let mock = locked_by(&[large.into(), small.into()], ScriptHashType::Data2).unwrap();
    serde_json::to_vec(&ReprMockTransaction::from(mock.as_ckb().clone())).unwrap()
}

async fn verify(client: &Client, transaction: &[u8], tier: Tier) -> VerifyTransactionResponse {
    let request = VerifyTransactionRequest {
        transaction: Some(Transaction::MockJson(transaction.to_vec().into())),
        tier: tier.into(),
        ..Default::default()
    };
    let answer = client.runner.clone().verify_transaction(request).await.unwrap().into_inner();
    assert_eq!(answer.outcome(), VerifyOutcome::Ok, "{answer:?}");
    answer
}

/// Why the programs of a transaction had no native code; empty for those that had.
fn fallbacks(answer: &VerifyTransactionResponse) -> Vec<&str> {
    for program in &answer.programs {
        let has_code = program.artifact.as_ref().is_some_and(|artifact| !artifact.key.is_empty());
        assert_eq!(has_code, program.fallback.is_empty(), "{answer:?}");
    }
    answer.programs.iter().map(|program| program.fallback.as_str()).collect()
}

/// Cycles of the one group, native and interpreted.
fn split(answer: &VerifyTransactionResponse) -> [u64; 2] {
    let tiers = answer.groups[0].tiers.as_ref().unwrap();
    [tiers.native_cycles, tiers.interpreted_cycles]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_verification_does_not_wait_for_a_long_compile() {
    let (_data, server, client) = serving("").await;
    let transaction = transaction();
    let first = verify(&client, &transaction, Tier::Auto).await;
    assert_eq!(fallbacks(&first), ["compiling", ""]);
    assert_eq!(split(&first)[0], 0, "{first:?}");
    assert_eq!(server.metric("antares_fallbacks_total{reason=\"compiling\"}"), 1.0);
    // Of the small program and of the large one, which nobody has asked for since.
    until("both libraries are ready", || server.metric("antares_ready_entries") == 2.0);
    let native = verify(&client, &transaction, Tier::Auto).await;
    assert_eq!(fallbacks(&native), ["", ""]);
    assert_eq!(split(&native)[1], 0, "{native:?}");
    assert_eq!(first.cycles, native.cycles);
    assert_eq!(native.cycles, verify(&client, &transaction, Tier::Interpreter).await.cycles);
}
