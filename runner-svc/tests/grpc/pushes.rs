//! Pushed profiles, as receivers get them.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use antares_abi::Sha256Digest;
use antares_proto::v1;
use opentelemetry_proto::tonic::collector::profiles::v1development::{
    ExportProfilesServiceRequest, ExportProfilesServiceResponse,
    profiles_service_server::{ProfilesService, ProfilesServiceServer},
};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, async_trait};

use crate::{
    guest,
    node::{Node, inline, wait_until},
};

#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<ExportProfilesServiceRequest>>>);

#[async_trait]
impl ProfilesService for Collector {
    async fn export(
        &self,
        request: Request<ExportProfilesServiceRequest>,
    ) -> Result<Response<ExportProfilesServiceResponse>, Status> {
        self.0.lock().expect("no test panics while it holds it").push(request.into_inner());
        Ok(Response::new(ExportProfilesServiceResponse::default()))
    }
}

async fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    (listener, url)
}

/// Cycles in a request, by the kind of the profile.
fn sum(request: &ExportProfilesServiceRequest, kind: &str) -> i64 {
    let texts = &request.dictionary.as_ref().expect("a dictionary").string_table;
    let scopes = request.resource_profiles.iter().flat_map(|resource| &resource.scope_profiles);
    let profiles = scopes.flat_map(|scope| &scope.profiles).filter(|profile| {
        let index = profile.sample_type.as_ref().expect("a type").type_strindex;
        usize::try_from(index).is_ok_and(|index| texts[index] == kind)
    });
    let profiles = profiles.inspect(|profile| {
        assert!(profile.time_unix_nano > 1 << 60 && profile.period == 10_000, "{profile:?}");
    });
    profiles.flat_map(|profile| &profile.samples).flat_map(|sample| &sample.values).sum()
}

/// A node with short push intervals and timeouts.
async fn pushing(changes: &str) -> Node {
    Node::both_with(changes, |config| {
        let push = config.profile_push.as_mut().expect("profiles are pushed");
        push.interval = Duration::from_millis(50);
        push.timeout = Duration::from_millis(300);
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_gets_all_cycles_once() {
    let (listener, url) = listen().await;
    let collector = Collector::default();
    let service = ProfilesServiceServer::new(collector.clone());
    let incoming = TcpListenerStream::new(listener);
    tokio::spawn(tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming));
    let node = pushing(&format!(
        r#"
        runner.sample_cycles = 10_000
        trace.endpoint = "{url}"
        profile_push.otlp = true
    "#
    ))
    .await;
    let mut reported = 0;
    for _ in 0..3 {
        let executed = node.execute(inline(&guest::counts(100), v1::Tier::Native)).await.unwrap();
        reported += i64::try_from(executed.verdict.unwrap().cycles).unwrap();
    }
    let sent = || collector.0.lock().unwrap().iter().map(|request| sum(request, "cycles")).sum::<i64>();
    wait_until("all cycles have arrived", || async { sent() >= reported }).await;
    // Nothing is sent twice.
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(sent(), reported);
    let requests = collector.0.lock().unwrap().clone();
    let texts = &requests[0].dictionary.as_ref().unwrap().string_table;
    let digest = Sha256Digest::of(&guest::counts(100)).to_string();
    assert!(texts.contains(&digest), "{texts:?}");
    let pushes = "antares_profile_pushes_total{result=\"sent\"}";
    assert_eq!(node.metric(pushes), Some(f64::from(u32::try_from(requests.len()).unwrap())));
}
