//! Profiles of a runner's runs add up to the reported cycles, for each tier and each reader.

use std::sync::{Arc, Mutex};

use antares_proto::v1::{self, Tier};
use opentelemetry_proto::tonic::collector::profiles::v1development::{
    ExportProfilesServiceRequest, ExportProfilesServiceResponse,
    profiles_service_server::{ProfilesService, ProfilesServiceServer},
};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, async_trait};

use antares_chain::exits;

use crate::{
    client::{Client, digest, inline, serving},
    journey::counts,
    server::until,
};

fn of(script: Option<&[u8]>) -> Option<v1::ProfileSelection> {
    let script = script.map(digest);
    Some(v1::ProfileSelection { script, window_ms: None })
}

async fn cycles(client: &Client, elf: &[u8], tier: Tier) -> u64 {
    client.execute(inline(elf, &[], tier)).await.unwrap().verdict.unwrap().cycles
}

#[tokio::test(flavor = "multi_thread")]
async fn profiles_add_up_to_what_callers_saw() {
    let (_data, server, runs) = serving("[runner]\nsample_cycles = 10000\n").await;
    let (long, short) = (counts(100, 1), exits(3));
    let mut reported = 0;
    for tier in [Tier::Native, Tier::Auto, Tier::Interpreter] {
        reported += cycles(&runs, &long, tier).await;
    }
    let reported_short = cycles(&runs, &short, Tier::Native).await;
    let mut client = runs.profiles.clone();

    let listed = client.list_profiles(v1::ListProfilesRequest::default()).await.unwrap().into_inner();
    let listed: Vec<(u64, u64)> = listed.scripts.iter().map(|script| (script.cycles, script.runs)).collect();
    assert_eq!(listed, [(reported, 3), (reported_short, 1)]);

    let top = v1::TopFunctionsRequest { selection: of(Some(&long)), limit: None };
    let top = client.top_functions(top).await.unwrap().into_inner();
    assert_eq!(top.cycles, reported);
    assert_eq!(top.functions.iter().map(|function| function.self_cycles).sum::<u64>(), reported);
    // Two runs of three were sampled; the interpreter's cycles are unknown, and so are those that no sample
    // covers.
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
    let wrong = v1::GetProfileRequest { selection: of(None), format: Some("svg".to_owned()) };
    assert_eq!(client.get_profile(wrong).await.unwrap_err().code(), tonic::Code::InvalidArgument);
    let same = v1::DiffProfilesRequest { before: of(Some(&long)), after: of(Some(&long)), limit: None };
    let same = client.diff_profiles(same).await.unwrap().into_inner();
    assert!(same.changes.iter().all(|change| change.before.to_bits() == change.after.to_bits()));
    client.get_insights(v1::GetInsightsRequest { selection: of(Some(&long)) }).await.unwrap();
    assert_eq!(server.metric("antares_profile_cycle_mismatch_total"), 0.0);
    let sampled = ["yes", "no"]
        .map(|word| server.metric(&format!("antares_profiled_runs_total{{sampled=\"{word}\"}}")));
    // A sample may hit the short run too: it has its own sample points.
    assert!(sampled[0] >= 2.0 && sampled[0] + sampled[1] == 4.0, "{sampled:?}");

    let page = |query: &str| server.get(&format!("/debug/pprof/guest{query}"));
    let found = page(&format!("?seconds=60&script={}", digest(&long)));
    // A profile for pprof is gzipped.
    assert!(found.starts_with("HTTP/1.1 200") && found.contains("\r\n\r\n\u{1f}\u{fffd}"), "{found}");
    // A scraper gets everything once.
    for is_whole in [true, false] {
        let delta = page("?delta=scraper");
        assert!(delta.starts_with("HTTP/1.1 200"), "{delta}");
        assert_eq!(delta.len() > found.len() * 3 / 4, is_whole, "{} of {}", delta.len(), found.len());
    }
    for (query, status) in
        [("?delta=scraper&seconds=1", 400), ("?delta=", 400), ("?seconds=x", 400), ("?tenant=nobody", 404)]
    {
        assert!(page(query).starts_with(&format!("HTTP/1.1 {status}")), "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn profiles_can_be_turned_off() {
    let (_data, _server, runs) = serving("[runner]\nsample_cycles = 0\n").await;
    cycles(&runs, &counts(100, 1), Tier::Native).await;
    let mut client = runs.profiles.clone();
    let listed = client.list_profiles(v1::ListProfilesRequest::default()).await.unwrap().into_inner();
    assert!(listed.scripts.is_empty());
}

/// Pushed profiles as a receiver gets them.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<ExportProfilesServiceRequest>>>);

#[async_trait]
impl ProfilesService for Collector {
    async fn export(
        &self,
        request: Request<ExportProfilesServiceRequest>,
    ) -> Result<Response<ExportProfilesServiceResponse>, Status> {
        self.0.lock().unwrap().push(request.into_inner());
        Ok(Response::new(ExportProfilesServiceResponse::default()))
    }
}

/// Cycles in a request.
fn sum(request: &ExportProfilesServiceRequest) -> i64 {
    let texts = &request.dictionary.as_ref().unwrap().string_table;
    let scopes = request.resource_profiles.iter().flat_map(|resource| &resource.scope_profiles);
    let profiles = scopes.flat_map(|scope| &scope.profiles).filter(|profile| {
        let index = profile.sample_type.as_ref().unwrap().type_strindex;
        usize::try_from(index).is_ok_and(|index| texts[index] == "cycles")
    });
    let profiles = profiles.inspect(|profile| {
        assert!(profile.time_unix_nano > 1 << 60 && profile.period == 10_000, "{profile:?}");
    });
    profiles.flat_map(|profile| &profile.samples).flat_map(|sample| &sample.values).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_gets_all_cycles_once() {
    let (collector, listener) = (Collector::default(), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let address = listener.local_addr().unwrap();
    let service = ProfilesServiceServer::new(collector.clone());
    let incoming = TcpListenerStream::new(listener);
    tokio::spawn(tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming));
    let sections = format!(
        "[runner]\nsample_cycles = 10000\n[trace]\nendpoint = \"http://{address}\"\n[profile_push]\notlp = true\n\
         [tuned]\nprofile_push_ms = 50\n"
    );
    let (_data, server, runs) = serving(&sections).await;
    let (elf, mut reported) = (counts(100, 1), 0);
    let sent = || collector.0.lock().unwrap().iter().map(sum).sum::<i64>();
    // Each round shows what of the earlier ones arrives twice.
    for _ in 0..3 {
        reported += i64::try_from(cycles(&runs, &elf, Tier::Native).await).unwrap();
        until("all cycles have arrived", || sent() >= reported);
        assert_eq!(sent(), reported);
    }
    let requests = collector.0.lock().unwrap().clone();
    let texts = &requests[0].dictionary.as_ref().unwrap().string_table;
    assert!(texts.contains(&digest(&elf)), "{texts:?}");
    until("its pushes are counted", || {
        server.result("profile_pushes_total", "sent") == requests.len() as f64
    });
}
