//! What strangers' tools find: services by reflection, old and new, metrics and health over HTTP.

use crate::{
    guest,
    node::{Node, inline},
};
use antares_proto::v1;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// What reflection of a version answers to a request.
macro_rules! reflected {
    ($version:ident, $node:expr, $message:ident($text:expr)) => {{
        use tonic_reflection::pb::$version::{
            ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
            server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
        };
        let message_request = Some(MessageRequest::$message($text));
        let ask = ServerReflectionRequest { host: String::new(), message_request };
        let mut client = ServerReflectionClient::new($node.channel.clone());
        let mut answers =
            client.server_reflection_info(tokio_stream::iter([ask])).await.unwrap().into_inner();
        match answers.message().await.unwrap().unwrap().message_response.unwrap() {
            MessageResponse::ListServicesResponse(list) => {
                list.service.into_iter().map(|one| one.name).collect()
            }
            MessageResponse::FileDescriptorResponse(_) => vec!["a file".to_owned()],
            other => panic!("{other:?}"),
        }
    }};
}

#[tokio::test(flavor = "multi_thread")]
async fn services_and_details_of_errors_are_described_in_both_versions() {
    let node = Node::both("").await;
    let new: Vec<String> = reflected!(v1, node, ListServices(String::new()));
    let old: Vec<String> = reflected!(v1alpha, node, ListServices(String::new()));
    for service in [
        "antares.v1.CompilerService",
        "antares.v1.RunnerService",
        "antares.v1.ProfileService",
        "antares.v1.StoreService",
        "grpc.health.v1.Health",
    ] {
        assert!(new.iter().any(|name| name == service), "{service} is not in {new:?}");
        assert!(old.iter().any(|name| name == service), "{service} is not in {old:?}");
    }
    for name in ["google.rpc.ErrorInfo", "google.rpc.BadRequest", "google.rpc.RetryInfo", "antares.v1.Script"]
    {
        let described: Vec<String> = reflected!(v1, node, FileContainingSymbol(name.to_owned()));
        assert_eq!(described, ["a file"], "{name}");
    }
}

async fn get(address: std::net::SocketAddr, path: &str) -> String {
    let mut stream = tokio::net::TcpStream::connect(address).await.expect("it listens");
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("it answers in text");
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_and_health_are_served_over_http() {
    let node = Node::both("metrics.address = \"127.0.0.1:0\"").await;
    node.execute(inline(&guest::exits(0), v1::Tier::Auto)).await.unwrap();
    let address = node.metrics_address.unwrap();
    assert!(get(address, "/healthz").await.starts_with("HTTP/1.1 200 OK"));
    assert!(get(address, "/nonsense").await.starts_with("HTTP/1.1 404"));
    let text = get(address, "/metrics").await;
    for name in [
        "antares_executions_total{outcome=\"exit\"} 1",
        "antares_run_seconds_bucket{",
        "antares_baseline_compile_seconds_count 1",
        "antares_baseline_compiles_total{result=\"done\"} 1",
        "antares_native_runs_total{code_tier=\"baseline\"} 1",
        // One of them for baselines alone.
        "antares_workers_max{role=\"compile\"} 3",
        "antares_workers_lost_total{role=\"run\"} 0",
        "antares_sandbox_violations_total{role=\"run\"} 0",
        "antares_sandbox_info{layer=\"seccomp\",role=\"run\"} 1",
    ] {
        assert!(text.contains(name), "{name} is not in\n{text}");
    }
}
