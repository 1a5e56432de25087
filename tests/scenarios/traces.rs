//! One call through two processes, as a collector of traces receives it.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use antares_proto::v1::Tier;
use antares_tests::guests;
use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::any_value::Value,
    trace::v1::ResourceSpans,
};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, async_trait};

use crate::{
    client::{Client, exit_code, inline},
    server::{Server, until},
};

const TRACE: [u8; 16] = [0xa7; 16];

/// By which service each span of [`TRACE`] was sent.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<BTreeSet<(String, String)>>>);

/// `service.name` of who sent `spans`.
fn service(spans: &ResourceSpans) -> String {
    let attributes = &spans.resource.as_ref().unwrap().attributes;
    let name = attributes.iter().find(|one| one.key == "service.name").unwrap();
    match name.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(name)) => name.clone(),
        other => panic!("the name of a service is {other:?}"),
    }
}

#[async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let mut seen = self.0.lock().unwrap();
        for sent in &request.get_ref().resource_spans {
            let spans = sent.scope_spans.iter().flat_map(|scope| &scope.spans);
            let ours = spans.filter(|span| span.trace_id == TRACE);
            seen.extend(ours.map(|span| (service(sent), span.name.clone())));
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_service_signs_its_part_of_a_trace() {
    let collector = Collector::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let trace = format!("[trace]\nendpoint = \"http://{}\"\n", listener.local_addr().unwrap());
    let served = TraceServiceServer::new(collector.clone());
    let incoming = TcpListenerStream::new(listener);
    tokio::spawn(tonic::transport::Server::builder().add_service(served).serve_with_incoming(incoming));

    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let compiler = Server::start_program("antares-compiler-svc", &[], &folders[0], &trace);
    let sections = format!("{trace}[runner]\ncompiler_url = \"http://{}\"\n", compiler.address);
    let runner = Server::start_program("antares-runner-svc", &[], &folders[1], &sections);
    let mut request = Request::new(inline(&guests::bytes("exit-imc").unwrap(), &["3"], Tier::Native));
    let parent = format!("00-{}-00f067aa0ba902b7-01", "a7".repeat(16));
    request.metadata_mut().insert("traceparent", parent.parse().unwrap());
    let mut client = Client::connect(&runner).await;
    let answer = client.runner.execute(request).await.unwrap().into_inner();
    assert_eq!(exit_code(&answer), Some(3));
    // What is not sent yet is sent at the end.
    let stop = || (runner.stop(), compiler.stop());
    let stopped = tokio::task::spawn_blocking(stop).await.unwrap();
    assert_eq!(stopped, (Some(0), Some(0)));
    let wanted = [
        ("antares-compiler", "antares.v1.CompilerService/Compile"),
        ("antares-runner", "antares.v1.RunnerService/Execute"),
        ("antares-runner", "run"),
    ];
    let seen = || collector.0.lock().unwrap().clone();
    until("the spans arrive", || {
        wanted.iter().all(|(by, name)| seen().contains(&((*by).to_owned(), (*name).to_owned())))
    });
    assert!(seen().iter().all(|(by, _)| ["antares-compiler", "antares-runner"].contains(&by.as_str())));
}
