//! Profiles that are pushed: what receivers get, and what one costs that never answers.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use antares_abi::Sha256Digest;
use antares_proto::v1;
use opentelemetry_proto::tonic::collector::profiles::v1development::{
    ExportProfilesServiceRequest, ExportProfilesServiceResponse,
    profiles_service_server::{ProfilesService, ProfilesServiceServer},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
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

/// A node that pushes soon, and gives up soon.
async fn pushing(changes: &str) -> Node {
    Node::both_with(changes, |config| {
        let push = config.profile_push.as_mut().unwrap();
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
    let mut told = 0;
    for _ in 0..3 {
        let executed = node.execute(inline(&guest::counts(100), v1::Tier::Native)).await.unwrap();
        told += i64::try_from(executed.verdict.unwrap().cycles).unwrap();
    }
    let sent = || collector.0.lock().unwrap().iter().map(|request| sum(request, "cycles")).sum::<i64>();
    wait_until("all cycles have arrived", || async { sent() >= told }).await;
    // Nothing comes twice.
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(sent(), told);
    let requests = collector.0.lock().unwrap().clone();
    let texts = &requests[0].dictionary.as_ref().unwrap().string_table;
    let digest = Sha256Digest::of(&guest::counts(100)).to_string();
    assert!(texts.contains(&digest), "{texts:?}");
    let pushes = "antares_profile_pushes_total{receiver=\"otlp\",result=\"sent\"}";
    assert_eq!(node.metric(pushes), Some(f64::from(u32::try_from(requests.len()).unwrap())));
}

#[tokio::test(flavor = "multi_thread")]
async fn pyroscope_gets_what_pprof_reads() {
    let (listener, url) = listen().await;
    let node = pushing(&format!(
        r#"
        runner.sample_cycles = 10_000
        profile_push.pyroscope_url = "{url}"
        profile_push.pyroscope_tenants = true
    "#
    ))
    .await;
    let mut request = Request::new(inline(&guest::counts(100), v1::Tier::Native));
    request.metadata_mut().insert("antares-tenant", "team-7".parse().unwrap());
    node.run_client().execute(request).await.unwrap();

    let (mut stream, _) = listener.accept().await.unwrap();
    let mut got = Vec::new();
    let mut part = vec![0; 1 << 16];
    while !got.ends_with(b"--\r\n") {
        let count = stream.read(&mut part).await.unwrap();
        assert!(count > 0, "the request ends early");
        got.extend(&part[..count]);
    }
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
    let text = String::from_utf8_lossy(&got).into_owned();
    let first = text.lines().next().unwrap();
    let digest = Sha256Digest::of(&guest::counts(100));
    let name = format!("name=antares.guest%7Bscript%3D{digest}%2Ctenant%3Dteam-7%7D&from=");
    assert!(first.starts_with("POST /ingest?") && first.contains(&name), "{first}");
    assert!(first.contains("&format=pprof HTTP/1.1"), "{first}");
    assert!(text.contains("x-scope-orgid: team-7\r\n"), "{text}");
    for name in ["profile", "sample_type_config"] {
        assert!(text.contains(&format!("form-data; name=\"{name}\"")), "{text}");
    }
    let start = got.windows(4).position(|bytes| bytes == [0x1f, 0x8b, 8, 0]);
    assert!(start.is_some(), "no compressed profile");
    let sent = "antares_profile_pushes_total{receiver=\"pyroscope\",result=\"sent\"}";
    wait_until("it counts as sent", || async { node.metric(sent) == Some(1.0) }).await;
}

/// A collector that accepts connections and never says a word.
#[tokio::test(flavor = "multi_thread")]
async fn a_silent_collector_costs_profiles_and_nothing_else() {
    let (listener, url) = listen().await;
    let held = tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            held.push(stream);
        }
    });
    let node = pushing(&format!(
        r#"
        runner.sample_cycles = 10_000
        trace.endpoint = "{url}"
        profile_push.otlp = true
        profile_push.pyroscope_url = "{url}"
    "#
    ))
    .await;
    let failed = |receiver: &str| {
        ["failed", "dropped"].map(|result| {
            let name = format!("antares_profile_pushes_total{{receiver=\"{receiver}\",result=\"{result}\"}}");
            node.metric(&name).unwrap()
        })
    };
    let start = Instant::now();
    let mut slowest = Duration::ZERO;
    // Many scripts: more than a push with two seconds each could ever send.
    let mut scripts = 0_i8;
    while ["otlp", "pyroscope"].iter().any(|receiver| failed(receiver).iter().any(|count| *count < 2.0)) {
        assert!(start.elapsed() < Duration::from_secs(60), "nothing fails or is dropped");
        let began = Instant::now();
        node.execute(inline(&guest::exits(scripts), v1::Tier::Interpreter)).await.unwrap();
        slowest = slowest.max(began.elapsed());
        scripts = scripts.wrapping_add(1);
    }
    // A call that waited for a push would take at least its timeout.
    assert!(slowest < Duration::from_millis(250), "a call took {slowest:?}");
    assert_eq!(node.metric("antares_profile_cycle_mismatch_total"), Some(0.0));
    held.abort();
}
