//! Profiles of a runner: they add up to the reported cycles in every tier.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use antares_abi::Sha256Digest;
use antares_proto::v1::{self, profile_service_client::ProfileServiceClient};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tonic::{Code, Request};

use crate::{
    guest,
    node::{Node, inline, stored},
};

fn of(script: Option<&[u8]>) -> Option<v1::ProfileSelection> {
    let script = script.map(|elf| Sha256Digest::of(elf).to_string());
    Some(v1::ProfileSelection { script, window_ms: None })
}

async fn cycles(node: &Node, request: v1::ExecuteRequest) -> u64 {
    let executed = node.execute(request).await.unwrap();
    executed.verdict.unwrap().cycles
}

#[tokio::test(flavor = "multi_thread")]
async fn profiles_add_up_to_what_callers_saw() {
    let node = Node::both(
        r#"
        runner.sample_cycles = 10_000
        metrics.address = "127.0.0.1:0"
    "#,
    )
    .await;
    let (long, short) = (guest::counts(100), guest::exits(3));
    let mut reported = 0;
    for tier in [v1::Tier::Native, v1::Tier::Auto, v1::Tier::Interpreter] {
        reported += cycles(&node, inline(&long, tier)).await;
    }
    let reported_short = cycles(&node, inline(&short, v1::Tier::Native)).await;
    let mut client = ProfileServiceClient::new(node.channel.clone());

    let listed = client.list_profiles(v1::ListProfilesRequest::default()).await.unwrap().into_inner();
    let listed: Vec<(u64, u64)> = listed.scripts.iter().map(|script| (script.cycles, script.runs)).collect();
    assert_eq!(listed, [(reported, 3), (reported_short, 1)]);

    let top = v1::TopFunctionsRequest { selection: of(Some(&long)), limit: None };
    let top = client.top_functions(top).await.unwrap().into_inner();
    assert_eq!(top.cycles, reported);
    assert_eq!(top.functions.iter().map(|function| function.self_cycles).sum::<u64>(), reported);
    // Two runs of three were sampled. The interpreter's run is not attributed, nor are the cycles that no
    // sample covers.
    let hottest = &top.functions[0];
    assert!(hottest.self_cycles >= reported / 3 * 2 - 2 * 10_000, "{top:?}");
    assert_ne!(hottest.name, "[other]");

    let graph = v1::GetCallGraphRequest { selection: of(Some(&long)), function: hottest.name.clone() };
    let graph = client.get_call_graph(graph).await.unwrap().into_inner();
    assert_eq!(graph.self_cycles, hottest.self_cycles);

    for format in ["pprof", "folded", "speedscope", "callgrind", "otlp", "html", "antares"] {
        let request = v1::GetProfileRequest { selection: of(None), format: Some(format.to_owned()) };
        let profile = client.get_profile(request).await.unwrap().into_inner();
        assert_eq!(profile.cycles, reported + reported_short, "{format}");
        assert!(!profile.profile.is_empty());
    }
    let same = v1::DiffProfilesRequest { before: of(Some(&long)), after: of(Some(&long)), limit: None };
    let same = client.diff_profiles(same).await.unwrap().into_inner();
    assert!(same.changes.iter().all(|change| change.before.to_bits() == change.after.to_bits()));
    client.get_insights(v1::GetInsightsRequest { selection: of(Some(&long)) }).await.unwrap();
    assert_eq!(node.metric("antares_profile_cycle_mismatch_total"), Some(0.0));
    let sampled = |word: &str| {
        node.metric(&format!("antares_profiled_runs_total{{sampled=\"{word}\"}}")).unwrap_or(0.0)
    };
    // A sample may also hit the short run: it has its own sample points.
    assert!(sampled("yes") >= 2.0, "{}", sampled("yes"));
    assert!((sampled("yes") + sampled("no") - 4.0).abs() < 0.5, "{}", sampled("no"));

    let found = page(&node, &format!("?seconds=60&script={}", Sha256Digest::of(&long))).await;
    // A profile for pprof is compressed by gzip.
    assert!(found.0.starts_with("HTTP/1.1 200") && found.1.starts_with(&[0x1f, 0x8b]), "{}", found.0);
    // A scraper gets every sample once.
    for lengths in [true, false] {
        let delta = page(&node, "?delta=scraper").await;
        assert!(delta.0.starts_with("HTTP/1.1 200"), "{}", delta.0);
        assert_eq!(delta.1.len() > found.1.len() / 2, lengths, "{}", delta.1.len());
    }
    assert!(page(&node, "?delta=scraper&seconds=1").await.0.starts_with("HTTP/1.1 400"));
    assert!(page(&node, "?delta=").await.0.starts_with("HTTP/1.1 400"));
    assert!(page(&node, "?seconds=x").await.0.starts_with("HTTP/1.1 400"));
    assert!(page(&node, "?tenant=nobody").await.0.starts_with("HTTP/1.1 404"));
}

/// Response of the profiles page: head and body.
async fn page(node: &Node, query: &str) -> (String, Vec<u8>) {
    let mut stream = tokio::net::TcpStream::connect(node.metrics_address.unwrap()).await.unwrap();
    let request =
        format!("GET /debug/pprof/guest{query} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
    (String::from_utf8_lossy(&answer[..end]).into_owned(), answer.split_off(end + 4))
}

fn of_tenant<T>(tenant: &'static str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("antares-tenant", tenant.parse().unwrap());
    request
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_see_their_own_profiles() {
    let node = Node::both("").await;
    let elf = guest::exits(4);
    node.upload(&elf).await.unwrap();
    node.run_client().execute(of_tenant("one", stored(&elf, v1::Tier::Auto))).await.unwrap();
    let mut client = ProfileServiceClient::new(node.channel.clone());
    let request = || v1::GetProfileRequest { selection: of(Some(&elf)), format: None };
    client.get_profile(of_tenant("one", request())).await.unwrap();
    let status = client.get_profile(of_tenant("two", request())).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    assert_eq!(client.get_profile(request()).await.unwrap_err().code(), Code::NotFound);
    let wrong = v1::GetProfileRequest { selection: of(None), format: Some("svg".to_owned()) };
    let status = client.get_profile(of_tenant("one", wrong)).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
}

#[tokio::test(flavor = "multi_thread")]
async fn profiles_can_be_turned_off() {
    let node = Node::both("runner.sample_cycles = 0").await;
    node.execute(inline(&guest::counts(100), v1::Tier::Native)).await.unwrap();
    let mut client = ProfileServiceClient::new(node.channel.clone());
    let listed = client.list_profiles(v1::ListProfilesRequest::default()).await.unwrap().into_inner();
    assert!(listed.scripts.is_empty());
}
