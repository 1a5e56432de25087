//! Baseline code at once, full code after it, and the switch between them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use antares_proto::v1;
use tonic::Code;

use crate::{
    guest,
    node::{Node, inline, reason, stored, wait_until},
};

/// Generator of the executed code.
fn code_tier(executed: &v1::ExecuteResponse) -> v1::CodeTier {
    executed.artifact.as_ref().unwrap().code_tier()
}

/// Runs a script until full code executes it; asserts that all responses equal the first.
async fn run_until_full(node: &Node, elf: &[u8], first: &v1::ExecuteResponse) {
    wait_until("the full compile follows", || async {
        let executed = node.execute(stored(elf, v1::Tier::Auto)).await.unwrap();
        assert_eq!((&executed.verdict, executed.fallback.as_str()), (&first.verdict, ""));
        let tiers = executed.tiers.as_ref().unwrap();
        assert_eq!(tiers.interpreted_cycles, 0);
        code_tier(&executed) == v1::CodeTier::Full
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_run_has_the_baseline_and_a_later_one_the_full_tier() {
    let node = Node::both("").await;
    for tier in [v1::Tier::Native, v1::Tier::Auto] {
        let elf = guest::padded(tier as u32);
        node.upload(&elf).await.unwrap();
        let first = node.execute(stored(&elf, tier)).await.unwrap();
        assert_eq!(code_tier(&first), v1::CodeTier::Baseline);
        assert_eq!(first.artifact.as_ref().unwrap().cache(), v1::CacheUse::Miss);
        assert_eq!(first.verdict.as_ref().unwrap().exit_code, Some(0));
        run_until_full(&node, &elf, &first).await;
    }
    assert_eq!(node.metric("antares_follower_compiles_total{result=\"done\"}"), Some(2.0));
    assert_eq!(node.metric("antares_compiles_total{result=\"done\"}"), Some(2.0));
    assert_eq!(node.metric("antares_native_runs_total{code_tier=\"full\"}"), Some(2.0));
    assert!(node.metric("antares_native_runs_total{code_tier=\"baseline\"}").unwrap() >= 2.0);
}

/// A run of `elf` that started with baseline code, and one after the full compile; none if the first ended
/// before that compile.
async fn run_over_the_full_compile(elf: &[u8]) -> Option<[v1::ExecuteResponse; 2]> {
    let node = Node::both("").await;
    let limits = v1::RunLimits { max_cycles: Some(1_000_000_000_000), ..v1::RunLimits::default() };
    let mut request = inline(elf, v1::Tier::Native);
    request.limits = Some(limits);
    let mut client = node.run_client();
    let long = tokio::spawn(async move { client.execute(request).await.unwrap().into_inner() });
    wait_until("the full compile has ended", || async {
        node.metric("antares_follower_compiles_total{result=\"done\"}") == Some(1.0)
    })
    .await;
    if long.is_finished() {
        return None;
    }
    let mut request = stored(elf, v1::Tier::Native);
    request.limits = Some(limits);
    let full = node.execute(request).await.unwrap();
    Some([long.await.unwrap(), full])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_under_way_keeps_its_code() {
    for doublings in 0..7 {
        let elf = guest::counts_again(500_000, 1 << doublings);
        let Some([long, full]) = run_over_the_full_compile(&elf).await else { continue };
        assert_eq!((code_tier(&long), code_tier(&full)), (v1::CodeTier::Baseline, v1::CodeTier::Full));
        assert_eq!(long.verdict, full.verdict);
        assert_eq!(long.verdict.unwrap().exit_code, Some(6));
        return;
    }
    panic!("a full compile of five instructions takes minutes");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_baseline_can_be_switched_off() {
    let node = Node::both("compiler.baseline = false").await;
    let first = node.execute(inline(&guest::exits(1), v1::Tier::Auto)).await.unwrap();
    assert_eq!(code_tier(&first), v1::CodeTier::Full);
    assert_eq!(node.metric("antares_baseline_compiles_total{result=\"done\"}"), Some(0.0));
    let interpreted = node.execute(inline(&guest::exits(1), v1::Tier::Interpreter)).await.unwrap();
    assert_eq!(code_tier(&interpreted), v1::CodeTier::Unspecified);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_wants_only_what_is_stored_causes_no_compile() {
    let node = Node::both("").await;
    let elf = guest::exits(3);
    let script_sha256 = antares_abi::Sha256Digest::of(&elf).to_string();
    let request = |least: v1::CodeTier| v1::CompileRequest {
        script_sha256: script_sha256.clone(),
        least: least.into(),
        stored_only: true,
        ..Default::default()
    };
    let ask = |least| {
        let (mut client, request) = (node.compile_client(), request(least));
        async move { client.compile(request).await }
    };
    let tiers = [v1::CodeTier::Baseline, v1::CodeTier::Full];
    assert_eq!(reason(&ask(tiers[0]).await.unwrap_err()), "SCRIPT_NOT_FOUND");
    node.upload(&elf).await.unwrap();
    for least in tiers {
        let status = ask(least).await.unwrap_err();
        assert_eq!((status.code(), reason(&status).as_str()), (Code::NotFound, "ARTIFACT_NOT_FOUND"));
    }
    let tried =
        ["antares_baseline_compiles_total{result=\"done\"}", "antares_compiles_total{result=\"done\"}"];
    assert!(tried.iter().all(|name| node.metric(name) == Some(0.0)));
    let first = node.execute(stored(&elf, v1::Tier::Auto)).await.unwrap();
    run_until_full(&node, &elf, &first).await;
    for least in tiers {
        let found = ask(least).await.unwrap().into_inner();
        assert_eq!((found.cache(), found.code_tier()), (v1::CacheUse::Hit, v1::CodeTier::Full));
    }
    assert!(tried.iter().all(|name| node.metric(name) == Some(1.0)));
    let start = v1::StartCompileRequest { compile: Some(request(v1::CodeTier::Full)), priority: 0 };
    let status = node.operation_client().start_compile(start).await.unwrap_err();
    assert_eq!(status.message(), "stored_only is for calls of Compile");
}

/// A script sent inline is stored by then, as if uploaded.
#[tokio::test(flavor = "multi_thread")]
async fn a_first_run_begins_before_its_long_compile_here_and_elsewhere() {
    let (both, compiler) = (Node::both("").await, Node::compiler().await);
    let elsewhere = Node::runner(compiler.address).await;
    let elf = guest::padded(40_000);
    for (node, compiler) in [(&both, &both), (&elsewhere, &compiler)] {
        let first = node.execute(inline(&elf, v1::Tier::Auto)).await.unwrap();
        let second = node.execute(stored(&elf, v1::Tier::Auto)).await.unwrap();
        assert_eq!(first.verdict.unwrap().exit_code, Some(0));
        assert_eq!((first.fallback.as_str(), first.artifact.unwrap().key.as_str()), ("compiling", ""));
        assert_eq!((second.fallback.as_str(), second.tiers.unwrap().interpreted_cycles), ("", 0));
        assert_eq!(compiler.metric("antares_baseline_compiles_total{result=\"done\"}"), Some(1.0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tier_that_does_not_exist_is_refused() {
    let node = Node::both("").await;
    let elf = guest::exits(0);
    node.upload(&elf).await.unwrap();
    let script_sha256 = antares_abi::Sha256Digest::of(&elf).to_string();
    let request = v1::CompileRequest { script_sha256, options: None, least: 77, ..Default::default() };
    let status = node.compile_client().compile(request).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::InvalidArgument, "least has no value 77"));
}
