//! Services that other tools find by reflection, old and new.

use crate::node::Node;

/// Response of a reflection version to a request.
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
