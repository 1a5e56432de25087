//! First runs of scripts with long compiles: the interpreter starts during the compile.

use antares_proto::v1::{Tier, VerifyOutcome, VerifyTransactionResponse};
use antares_tests::guests;
use ckb_types::core::ScriptHashType;

use crate::{
    client::{Client, locked, serving, verification},
    server::until,
};

/// A countdown from `t1`, followed by 170 KB of code.
const CODE: &str = "loop: addi t1, t1, -1\nbnez t1, loop\nli t0, 0\n\
     code:\n.rept 14000\nadd a0, a0, a1\nxor a1, a1, a0\nslli a1, a1, 3\nbeq a0, a1, 1f\naddi a0, a0, 3\n1:\n.endr\n\
     end:\nli a0, 0\nli a7, 93\necall\n";

/// A transaction whose lock executes 170 KB of code, with a small program as another cell.
fn transaction() -> Vec<u8> {
    let large = guests::assemble(&format!(".globl _start\n_start:\nli t1, 1\n{CODE}")).unwrap();
    let small = guests::assemble(".globl _start\n_start:\nli a7, 93\necall\n").unwrap();
    locked(&[large.into(), small.into()], ScriptHashType::Data2)
}

async fn verify(client: &Client, transaction: &[u8], tier: Tier) -> VerifyTransactionResponse {
    let answer = client.verify(verification(transaction, tier)).await.unwrap();
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
    // Of the small program, and of the large one, without another request for it.
    until("both libraries are ready", || server.metric("antares_ready_entries") == 2.0);
    let native = verify(&client, &transaction, Tier::Auto).await;
    assert_eq!(fallbacks(&native), ["", ""]);
    assert_eq!(split(&native)[1], 0, "{native:?}");
    assert_eq!(first.cycles, native.cycles);
    assert_eq!(native.cycles, verify(&client, &transaction, Tier::Interpreter).await.cycles);
}
