//! What strangers' tools find: services by reflection, old and new, health by name, metrics over HTTP.

use crate::{
    guest,
    node::{Node, inline},
};
use antares_proto::v1;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test(flavor = "multi_thread")]
async fn services_are_listed_in_both_versions() {
    let node = Node::both("").await;
    let expected = [
        "antares.v1.CompilerService",
        "antares.v1.RunnerService",
        "antares.v1.ProfileService",
        "antares.v1.StoreService",
        "grpc.health.v1.Health",
    ];
    let new: Vec<String> = {
        use tonic_reflection::pb::v1::{
            ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
            server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
        };
        let ask = ServerReflectionRequest {
            host: String::new(),
            message_request: Some(MessageRequest::ListServices(String::new())),
        };
        let mut client = ServerReflectionClient::new(node.channel.clone());
        let mut answers =
            client.server_reflection_info(tokio_stream::iter([ask])).await.unwrap().into_inner();
        match answers.message().await.unwrap().unwrap().message_response.unwrap() {
            MessageResponse::ListServicesResponse(list) => {
                list.service.into_iter().map(|one| one.name).collect()
            }
            other => panic!("{other:?}"),
        }
    };
    let old: Vec<String> = {
        use tonic_reflection::pb::v1alpha::{
            ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
            server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
        };
        let ask = ServerReflectionRequest {
            host: String::new(),
            message_request: Some(MessageRequest::ListServices(String::new())),
        };
        let mut client = ServerReflectionClient::new(node.channel.clone());
        let mut answers =
            client.server_reflection_info(tokio_stream::iter([ask])).await.unwrap().into_inner();
        match answers.message().await.unwrap().unwrap().message_response.unwrap() {
            MessageResponse::ListServicesResponse(list) => {
                list.service.into_iter().map(|one| one.name).collect()
            }
            other => panic!("{other:?}"),
        }
    };
    for service in expected {
        assert!(new.iter().any(|name| name == service), "{service} is not in {new:?}");
        assert!(old.iter().any(|name| name == service), "{service} is not in {old:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn details_of_errors_can_be_read_by_strangers() {
    use tonic_reflection::pb::v1::{
        ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
        server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
    };
    let node = Node::both("").await;
    for name in ["google.rpc.ErrorInfo", "google.rpc.BadRequest", "google.rpc.RetryInfo", "antares.v1.Script"]
    {
        let ask = ServerReflectionRequest {
            host: String::new(),
            message_request: Some(MessageRequest::FileContainingSymbol(name.to_owned())),
        };
        let mut client = ServerReflectionClient::new(node.channel.clone());
        let mut answers =
            client.server_reflection_info(tokio_stream::iter([ask])).await.unwrap().into_inner();
        let answer = answers.message().await.unwrap().unwrap().message_response.unwrap();
        assert!(matches!(answer, MessageResponse::FileDescriptorResponse(_)), "{name}: {answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn health_is_known_by_name() {
    let node = Node::both("").await;
    for service in [
        "",
        "antares.v1.CompilerService",
        "antares.v1.RunnerService",
        "antares.v1.ProfileService",
        "antares.v1.StoreService",
        "liveness",
    ] {
        assert_eq!(node.health(service).await, Some(1), "{service}");
    }
    assert_eq!(node.health("nonsense").await, None);
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
        "antares_build_info{",
        "antares_executions_total{outcome=\"exit\"} 1",
        "antares_guest_cycles_total{tier=\"native\"}",
        "antares_run_seconds_bucket{",
        "antares_baseline_compile_seconds_count 1",
        "antares_baseline_compiles_total{result=\"done\"} 1",
        "antares_compiles_total{result=\"failed\"} 0",
        "antares_follower_compiles_total{result=\"dropped\"} 0",
        "antares_native_runs_total{code_tier=\"baseline\"} 1",
        "antares_native_runs_total{code_tier=\"full\"} 0",
        "antares_cache_hits_total{space=\"artifact\"}",
        "antares_cache_misses_total{space=\"script\"}",
        "antares_cache_bytes ",
        "antares_cache_disk_bytes ",
        "antares_cache_blobs 0",
        "antares_cache_corrupt_total 0",
        "antares_workers_busy{role=\"run\"}",
        // One of them for baselines alone.
        "antares_workers_max{role=\"compile\"} 3",
        "antares_workers_lost_total{role=\"run\"} 0",
        "antares_sandbox_violations_total{role=\"run\"} 0",
        "antares_zygote_restarts_total{role=\"run\"} 0",
        "antares_zygote_renewals_total{role=\"run\"} 0",
        "antares_sandbox_info{layer=\"seccomp\",role=\"run\"} 1",
        "rpc_server_call_duration_seconds_bucket{rpc_method=\"antares.v1.RunnerService/Execute\"",
    ] {
        assert!(text.contains(name), "{name} is not in\n{text}");
    }
}
