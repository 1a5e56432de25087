//! Both services when something goes wrong: a compiler service that is not there, a store with rubbish in
//! it, an end in the middle of work.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use crate::{
    guest,
    node::{Node, inline, reason, stored, wait_until},
};
use antares_abi::{CompileOptions, Isa, Sha256Digest};
use antares_cache::{Cache, CacheConfig, Space};
use antares_proto::v1;
use tonic::Code;

fn endless() -> v1::ExecuteRequest {
    let mut request = inline(&guest::loops(), v1::Tier::Native);
    request.limits = Some(v1::RunLimits {
        max_cycles: Some(1_000_000_000_000),
        deadline_ms: Some(30_000),
        debug_bytes_max: None,
    });
    request
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_gets_everything_from_a_compiler_elsewhere() {
    let compiler = Node::compiler(|_| {}).await;
    let runner = Node::runner(compiler.address, |_| {}).await;
    let elf = guest::padded(10_000);
    let first = runner.execute(inline(&elf, v1::Tier::Native)).await.unwrap();
    assert_eq!(first.verdict.unwrap().exit_code, Some(0));
    assert_eq!(first.artifact.unwrap().cache, i32::from(v1::CacheUse::Miss));
    let again = runner.execute(stored(&elf, v1::Tier::Native)).await.unwrap();
    assert_eq!(again.artifact.unwrap().cache, i32::from(v1::CacheUse::Hit));
    // Another runner has nothing ready and finds it all there.
    let other = Node::runner(compiler.address, |_| {}).await;
    let found = other.execute(stored(&elf, v1::Tier::Native)).await.unwrap();
    assert_eq!(found.artifact.unwrap().cache, i32::from(v1::CacheUse::Hit));
    let refused = runner.execute(inline(&elf[..100], v1::Tier::Native)).await.unwrap_err();
    assert_eq!((refused.code(), reason(&refused).as_str()), (Code::InvalidArgument, "SCRIPT_INVALID"));
    let missing = runner.execute(stored(&guest::exits(9), v1::Tier::Auto)).await.unwrap_err();
    assert_eq!((missing.code(), reason(&missing).as_str()), (Code::NotFound, "SCRIPT_NOT_FOUND"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_without_its_compiler_interprets_what_it_has() {
    let nowhere: SocketAddr = "127.0.0.1:1".parse().unwrap();
    let runner = Node::runner(nowhere, |_| {}).await;
    let auto = runner.execute(inline(&guest::exits(5), v1::Tier::Auto)).await.unwrap();
    assert_eq!((auto.verdict.unwrap().exit_code, auto.fallback.as_str()), (Some(5), "source_unavailable"));
    for request in
        [inline(&guest::exits(5), v1::Tier::Native), stored(&guest::exits(5), v1::Tier::Interpreter)]
    {
        let status = runner.execute(request).await.unwrap_err();
        assert_eq!((status.code(), reason(&status).as_str()), (Code::Unavailable, "SOURCE_UNAVAILABLE"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rubbish_in_the_store_is_compiled_over_and_never_run() {
    let elf = guest::exits(3);
    let options = CompileOptions { vm_version: 2, isa: Isa::of_version(2) };
    let key = Sha256Digest::for_artifact(Sha256Digest::of(&elf), options);
    let node = Node::both(|raw| {
        let cache = Cache::open(CacheConfig::new(&raw.cache.dir, raw.cache.budget_bytes)).unwrap();
        cache.put(Space::Artifact, key.0, b"\x7fELF but nothing of ours").unwrap();
    })
    .await;
    let executed = node.execute(inline(&elf, v1::Tier::Native)).await.unwrap();
    assert_eq!(executed.verdict.unwrap().exit_code, Some(3));
    assert_eq!(executed.artifact.unwrap().cache, i32::from(v1::CacheUse::Miss));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_store_does_not_fail_a_run() {
    let node = Node::both(|raw| raw.cache.free_bytes_min = u64::MAX / 2).await;
    let elf = guest::exits(4);
    let executed = node.execute(inline(&elf, v1::Tier::Native)).await.unwrap();
    assert_eq!(executed.verdict.unwrap().exit_code, Some(4));
    let status = node.upload(&elf).await.unwrap_err();
    assert_eq!((status.code(), reason(&status).as_str()), (Code::ResourceExhausted, "STORE_FULL"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_lets_a_call_end_and_no_new_one_in() {
    let mut node = Node::both(|_| {}).await;
    let mut request = endless();
    request.limits.as_mut().unwrap().deadline_ms = Some(1_500);
    let mut client = node.run_client();
    let call = tokio::spawn(async move { client.execute(request).await });
    wait_until("the worker runs", || async {
        node.metric("antares_workers_busy{role=\"run\"}") == Some(1.0)
    })
    .await;
    // A peer that connects and says nothing must not hold up the end.
    let _half_open = std::net::TcpStream::connect(node.address).unwrap();
    let started = Instant::now();
    node.stop();
    let executed = call.await.unwrap().unwrap().into_inner();
    assert_eq!(executed.verdict.unwrap().outcome(), v1::Outcome::DeadlineExceeded);
    node.served.take().unwrap().await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    assert!(std::net::TcpStream::connect(node.address).is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_never_ends_is_left_behind_after_the_grace() {
    let mut node = Node::both(|raw| raw.listen.drain_grace_ms = 300).await;
    let mut client = node.run_client();
    let call = tokio::spawn(async move { client.execute(endless()).await });
    wait_until("the worker runs", || async {
        node.metric("antares_workers_busy{role=\"run\"}") == Some(1.0)
    })
    .await;
    let started = Instant::now();
    node.stop();
    node.served.take().unwrap().await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    call.abort();
}
