//! A trace of one call, from the caller's span to the worker's run, as a collector receives it. Runs in its
//! own process: there is one tracer per process.
#![allow(clippy::unwrap_used, reason = "a test")]
#![forbid(unsafe_code)]

#[path = "grpc/guest.rs"]
mod guest;
#[path = "grpc/node.rs"]
mod node;

use std::sync::{Arc, Mutex};

use antares_config::{ConfigFile, Role};
use antares_proto::v1;
use antares_serve::Telemetry;
use node::{Node, inline, wait_until};
use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::{KeyValue, any_value::Value},
    resource::v1::Resource,
    trace::v1::{ResourceSpans, Span},
};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, async_trait};

/// Received requests, unchanged.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<ResourceSpans>>>);

impl Collector {
    fn spans(&self) -> Vec<Span> {
        let sent = self.0.lock().unwrap();
        sent.iter().flat_map(|one| &one.scope_spans).flat_map(|one| one.spans.clone()).collect()
    }
}

#[async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let sent = request.into_inner().resource_spans;
        self.0.lock().expect("no test panics while it holds it").extend(sent);
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

fn value(attributes: &[KeyValue], key: &str) -> Option<Value> {
    attributes.iter().find(|one| one.key == key)?.value.clone()?.value
}

fn number(span: &Span, key: &str) -> Option<i64> {
    match value(&span.attributes, key)? {
        Value::IntValue(number) => Some(number),
        _ => None,
    }
}

fn text(attributes: &[KeyValue], key: &str) -> Option<String> {
    match value(attributes, key)? {
        Value::StringValue(text) => Some(text),
        _ => None,
    }
}

const SCHEMA: &str = "https://opentelemetry.io/schemas/1.44.0";

/// Asserts that all data names its service and its conventions.
fn check_origin(collector: &Collector) {
    let sent = collector.0.lock().unwrap();
    assert!(!sent.is_empty());
    for one in sent.iter() {
        let Resource { attributes, .. } = one.resource.as_ref().unwrap();
        assert_eq!(text(attributes, "service.name").as_deref(), Some("antares-server"));
        assert_eq!(text(attributes, "service.version").as_deref(), Some(env!("CARGO_PKG_VERSION")));
        assert!(text(attributes, "host.name").is_some());
        assert_eq!(text(attributes, "service.instance.id").map(|id| id.len()), Some(36));
        assert_eq!(one.schema_url, SCHEMA);
        for scope in &one.scope_spans {
            let named = scope.scope.as_ref().map(|scope| (scope.name.as_str(), scope.version.as_str()));
            assert_eq!(named, Some(("antares", env!("CARGO_PKG_VERSION"))));
            assert_eq!(scope.schema_url, SCHEMA);
        }
    }
}

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_call_is_one_trace_down_to_the_worker_s_run() {
    let collector = Collector::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = TraceServiceServer::new(collector.clone());
    let incoming = TcpListenerStream::new(listener);
    tokio::spawn(tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming));

    let file: ConfigFile = format!("trace.endpoint = \"http://{address}\"").parse().unwrap();
    let config = file.check(Role::Both, &[]).unwrap();
    let telemetry = Telemetry::start(&config, Role::Both.service_name()).unwrap();

    let node = Node::both("").await;
    let mut request = Request::new(inline(&guest::exits(0), v1::Tier::Native));
    let parent = format!("00-{TRACE}-{CALLER}-01");
    request.metadata_mut().insert("traceparent", parent.parse().unwrap());
    request.metadata_mut().insert("antares-tenant", "acme".parse().unwrap());
    let executed = node.run_client().execute(request).await.unwrap().into_inner();
    tokio::task::spawn_blocking(|| telemetry.stop()).await.unwrap();
    let arrived = || collector.spans().iter().any(|span| span.name == "run");
    wait_until("the spans arrive", || async { arrived() }).await;
    check_origin(&collector);

    let spans = collector.spans();
    let ours: Vec<&Span> = spans.iter().filter(|span| hex(&span.trace_id) == TRACE).collect();
    let find = |name: &str| {
        let names: Vec<&str> = ours.iter().map(|span| span.name.as_str()).collect();
        *ours.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("no {name} in {names:?}"))
    };
    let rpc = find("antares.v1.RunnerService/Execute");
    assert_eq!(hex(&rpc.parent_span_id), CALLER);
    assert_eq!(text(&rpc.attributes, "tenant").as_deref(), Some("acme"));
    assert_eq!(text(&rpc.attributes, "server.address").as_deref(), Some("127.0.0.1"));
    assert!(number(rpc, "server.port").is_some_and(|port| port > 0));
    let execute = find("execute");
    assert_eq!(execute.parent_span_id, rpc.span_id);
    for name in ["script", "artifact", "queue", "worker"] {
        assert_eq!(find(name).parent_span_id, execute.span_id, "{name}");
    }
    assert_eq!(find("compile").parent_span_id, find("artifact").span_id);
    let (worker, load, run) = (find("worker"), find("load"), find("run"));
    assert_eq!((&load.parent_span_id, &run.parent_span_id), (&worker.span_id, &worker.span_id));
    assert!(load.end_time_unix_nano <= run.start_time_unix_nano + 1_000);
    let cycles = executed.verdict.unwrap().cycles;
    assert_eq!(number(run, "cycles"), i64::try_from(cycles).ok());
    assert_eq!(number(execute, "cycles"), i64::try_from(cycles).ok());
}
