//! Both services over real gRPC with real workers: the life of a script, and errors of invalid requests.

use std::time::Duration;

use crate::{
    guest,
    node::{Node, inline, reason, stored},
};
use antares_abi::Sha256Digest;
use antares_proto::v1;
use tonic::{Code, Request};

fn compile_request(elf: &[u8]) -> v1::CompileRequest {
    v1::CompileRequest { script_sha256: Sha256Digest::of(elf).to_string(), ..Default::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_is_uploaded_compiled_kept_and_run() {
    let node = Node::both("").await;
    let elf = guest::exits(-3);
    let digest = Sha256Digest::of(&elf).to_string();
    let ask = || v1::FindMissingRequest { script_sha256: vec![digest.clone(), digest.clone()] };
    let missing = node.compile_client().find_missing(ask()).await.unwrap().into_inner();
    assert_eq!(missing.missing_sha256, std::slice::from_ref(&digest));
    assert!(!node.upload(&elf).await.unwrap().into_inner().already_stored);
    assert!(node.upload(&elf).await.unwrap().into_inner().already_stored);
    let missing = node.compile_client().find_missing(ask()).await.unwrap().into_inner();
    assert!(missing.missing_sha256.is_empty());

    let first = node.compile_client().compile(compile_request(&elf)).await.unwrap().into_inner();
    let second = node.compile_client().compile(compile_request(&elf)).await.unwrap().into_inner();
    assert_eq!((first.cache(), second.cache()), (v1::CacheUse::Miss, v1::CacheUse::Hit));
    assert_eq!(first.artifact_sha256, second.artifact_sha256);
    assert!(first.stored && first.figures.is_some());

    let native = node.execute(stored(&elf, v1::Tier::Native)).await.unwrap();
    let verdict = native.verdict.clone().unwrap();
    assert_eq!((verdict.outcome(), verdict.exit_code), (v1::Outcome::Exit, Some(-3)));
    assert_eq!(native.artifact.as_ref().unwrap().key, first.artifact_key);
    assert_eq!(native.artifact.unwrap().cache, i32::from(v1::CacheUse::Hit));
    let tiers = native.tiers.unwrap();
    assert_eq!((tiers.native_cycles, tiers.interpreted_cycles), (verdict.cycles, 0));

    let interpreted = node.execute(stored(&elf, v1::Tier::Interpreter)).await.unwrap();
    assert_eq!(interpreted.verdict.unwrap(), verdict);
    assert_eq!(interpreted.artifact.unwrap().cache, i32::from(v1::CacheUse::None));
}

/// All times in responses to tenants are multiples of the step; without a tenant, they are exact.
#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_sees_coarse_times() {
    const STEP_US: u64 = 1 << 40;
    let node = Node::both_with("", |config| config.tenancy.timing_step_us = STEP_US).await;
    let elf = guest::exits(0);
    let of_tenant = |message| {
        let mut request = Request::new(message);
        request.metadata_mut().insert("antares-tenant", "a".parse().unwrap());
        request
    };
    let times = |timings: Option<v1::Timings>| {
        let timings = timings.unwrap();
        [timings.fetch_us, timings.queue_us, timings.load_us, timings.run_us]
    };
    let request = || inline(&elf, v1::Tier::Auto);
    let coarse = node.run_client().execute(of_tenant(request())).await.unwrap().into_inner();
    assert!(times(coarse.timings).iter().all(|time| [0, STEP_US].contains(time)), "{coarse:?}");
    assert_eq!(coarse.timings.unwrap().load_us, STEP_US);
    let exact = node.execute(request()).await.unwrap();
    assert!((1..STEP_US).contains(&exact.timings.unwrap().load_us), "{exact:?}");

    let mut batch = Request::new(v1::ExecuteBatchRequest {
        script: request().script,
        inputs: vec![v1::Input::default(); 2],
        ..v1::ExecuteBatchRequest::default()
    });
    batch.metadata_mut().insert("antares-tenant", "a".parse().unwrap());
    let batch = node.run_client().execute_batch(batch).await.unwrap().into_inner();
    let runs = batch.results.iter().map(|result| result.run_us);
    assert!(
        times(batch.timings).into_iter().chain(runs).all(|time| [0, STEP_US].contains(&time)),
        "{batch:?}"
    );
}

#[track_caller]
fn is(status: &tonic::Status, code: Code, expected: &str) {
    assert_eq!((status.code(), reason(status).as_str()), (code, expected), "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_uploads_learn_what_is_wrong() {
    let node = Node::both("").await;
    let elf = guest::exits(0);
    let good = || v1::BlobHeader {
        sha256: Sha256Digest::of(&elf).to_string(),
        size_bytes: elf.len() as u64,
        ..Default::default()
    };
    let upload = |header: v1::BlobHeader| async { node.upload_as(header, &elf).await.unwrap_err() };
    let huge = upload(v1::BlobHeader { size_bytes: 1 << 30, ..good() }).await;
    is(&huge, Code::InvalidArgument, "SCRIPT_TOO_LARGE");
    let short = upload(v1::BlobHeader { size_bytes: good().size_bytes - 1, ..good() }).await;
    is(&short, Code::InvalidArgument, "SIZE_MISMATCH");
    let long = upload(v1::BlobHeader { size_bytes: good().size_bytes + 1, ..good() }).await;
    is(&long, Code::InvalidArgument, "SIZE_MISMATCH");
    let other = upload(v1::BlobHeader { sha256: "00".repeat(32), ..good() }).await;
    is(&other, Code::InvalidArgument, "DIGEST_MISMATCH");
    let malformed = upload(v1::BlobHeader { sha256: "xyz".to_owned(), ..good() }).await;
    is(&malformed, Code::InvalidArgument, "DIGEST_MALFORMED");
    assert_eq!(node.metric("antares_cache_entries{space=\"script\"}"), Some(0.0));
    node.upload(&elf).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_truncated_script_is_refused_natively_and_interpreted_as_the_vm_does() {
    let node = Node::both("").await;
    let elf = &guest::exits(0)[..100];
    for _ in 0..2 {
        let status = node.execute(inline(elf, v1::Tier::Native)).await.unwrap_err();
        is(&status, Code::InvalidArgument, "SCRIPT_INVALID");
    }
    // The second refusal came from memory.
    assert_eq!(node.metric("antares_baseline_compiles_total{result=\"refused\"}"), Some(1.0));
    let auto = node.execute(inline(elf, v1::Tier::Auto)).await.unwrap();
    let interpreted = node.execute(inline(elf, v1::Tier::Interpreter)).await.unwrap();
    assert_eq!(auto.fallback, "compile_refused");
    assert_eq!(auto.verdict, interpreted.verdict);
    assert_eq!(auto.verdict.unwrap().outcome(), v1::Outcome::Error);
}

fn endless(tier: v1::Tier, deadline_ms: u64) -> v1::ExecuteRequest {
    let mut request = inline(&guest::loops(), tier);
    request.limits = Some(v1::RunLimits {
        max_cycles: Some(1_000_000_000_000),
        deadline_ms: Some(deadline_ms),
        debug_bytes_max: None,
    });
    request
}

#[tokio::test(flavor = "multi_thread")]
async fn the_script_s_time_is_a_verdict_and_the_call_s_time_is_a_status() {
    let node = Node::both("runner.workers_max = 1").await;
    for tier in [v1::Tier::Native, v1::Tier::Interpreter] {
        let executed = node.execute(endless(tier, 200)).await.unwrap();
        assert_eq!(executed.verdict.unwrap().outcome(), v1::Outcome::DeadlineExceeded, "{tier:?}");
    }
    let mut request = Request::new(endless(v1::Tier::Native, 30_000));
    request.set_timeout(Duration::from_millis(300));
    let status = node.run_client().execute(request).await.unwrap_err();
    // The client returns CANCELLED if its own clock notices first.
    assert!(matches!(status.code(), Code::DeadlineExceeded | Code::Cancelled), "{status}");
    // The call's end killed the only worker: the next call gets a new one.
    let next =
        tokio::time::timeout(Duration::from_secs(5), node.execute(inline(&guest::exits(0), v1::Tier::Auto)));
    assert_eq!(next.await.unwrap().unwrap().verdict.unwrap().exit_code, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_what_the_answers_said() {
    let node = Node::both("").await;
    let (mut native, mut interpreted) = (0, 0);
    for tier in [v1::Tier::Native, v1::Tier::Interpreter, v1::Tier::Auto] {
        let executed = node.execute(inline(&guest::padded(100), tier)).await.unwrap();
        let tiers = executed.tiers.unwrap();
        native += tiers.native_cycles;
        interpreted += tiers.interpreted_cycles;
    }
    let cycles = |tier| node.metric(&format!("antares_guest_cycles_total{{tier=\"{tier}\"}}")).unwrap();
    assert!((cycles("native") - native as f64).abs() < 0.5 && native > 0);
    assert!((cycles("interpreter") - interpreted as f64).abs() < 0.5 && interpreted > 0);
    assert_eq!(node.metric("antares_executions_total{outcome=\"exit\"}"), Some(3.0));
    assert_eq!(node.metric("antares_run_seconds_count"), Some(3.0));
    let calls = "rpc_server_call_duration_seconds_count{rpc_method=\"antares.v1.RunnerService/Execute\",rpc_response_status_code=\"OK\"}";
    assert_eq!(node.metric(calls), Some(3.0));
    assert_eq!(node.metric("antares_workers_lost_total{role=\"run\"}"), Some(0.0));
}

/// A client that queries scripts is about to use them.
#[tokio::test(flavor = "multi_thread")]
async fn to_ask_for_a_script_is_to_use_it() {
    // Eleven scripts of 96 KiB do not fit: the store evicts before it reaches 1 MiB.
    let node = Node::both(
        "
        cache.budget_bytes = 1048576
        compiler.script_bytes_max = 262144
    ",
    )
    .await;
    let scripts: Vec<_> = (0..24).map(|number| guest::padded((96 << 10) / 4 + number)).collect();
    let digest = |at: usize| Sha256Digest::of(&scripts[at]).to_string();
    let missing = async |asked: Vec<String>| {
        let request = v1::FindMissingRequest { script_sha256: asked };
        node.compile_client().find_missing(request).await.unwrap().into_inner().missing_sha256
    };
    for (at, elf) in scripts.iter().enumerate() {
        node.upload(elf).await.unwrap();
        if at > 0 {
            assert!(missing(vec![digest(0)]).await.is_empty(), "after {at} more");
        }
    }
    assert_eq!(missing(vec![digest(0), digest(1)]).await, [digest(1)], "nobody asked for the second");
}
