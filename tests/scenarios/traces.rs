//! Spans as a trace collector receives them: of one call through two processes, and encrypted.

use std::{
    fs,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use antares_proto::v1::Tier;
use antares_tests::{authorities::Authority, guests};
use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::{KeyValue, any_value::Value},
    trace::v1::{ResourceSpans, Span},
};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        RootCertStore, ServerConfig,
        crypto::aws_lc_rs::default_provider,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
        server::WebPkiClientVerifier,
    },
};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, async_trait};

use crate::{
    client::{Client, exit_code, inline, of_tenant},
    server::{Server, alone, started, until},
};

const TRACE: [u8; 16] = [0xa7; 16];

/// Received data with spans of [`TRACE`], as it was sent.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<ResourceSpans>>>);

fn value(attributes: &[KeyValue], key: &str) -> Option<Value> {
    attributes.iter().find(|one| one.key == key)?.value.clone()?.value
}

fn text(attributes: &[KeyValue], key: &str) -> String {
    match value(attributes, key) {
        Some(Value::StringValue(text)) => text,
        other => panic!("{key} is {other:?}"),
    }
}

/// `service.name` of the sender of `spans`.
fn service(spans: &ResourceSpans) -> String {
    text(&spans.resource.as_ref().unwrap().attributes, "service.name")
}

fn ours(sent: &ResourceSpans) -> Vec<Span> {
    let spans = sent.scope_spans.iter().flat_map(|scope| &scope.spans);
    spans.filter(|span| span.trace_id == TRACE).cloned().collect()
}

#[async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let sent = request.into_inner().resource_spans.into_iter();
        self.0.lock().unwrap().extend(sent.filter(|sent| !ours(sent).is_empty()));
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    /// A running collector, and its address.
    async fn start() -> (Self, SocketAddr) {
        let (collector, listener) = (Self::default(), TcpListener::bind("127.0.0.1:0").await.unwrap());
        let (served, address) = (TraceServiceServer::new(collector.clone()), listener.local_addr().unwrap());
        let incoming = TcpListenerStream::new(listener);
        tokio::spawn(tonic::transport::Server::builder().add_service(served).serve_with_incoming(incoming));
        (collector, address)
    }
}

/// Forwards clients with a certificate of `authority` to `inner`.
async fn encrypted(authority: &Authority, inner: SocketAddr) -> SocketAddr {
    let (provider, mut roots) = (Arc::new(default_provider()), RootCertStore::empty());
    roots.add(CertificateDer::from_pem_file(authority.certificate()).unwrap()).unwrap();
    let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    let own = authority.issue("collector", "IP:127.0.0.1");
    let chain = vec![CertificateDer::from_pem_file(&own.certificate).unwrap()];
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(clients.build().unwrap())
        .with_single_cert(chain, PrivateKeyDer::from_pem_file(&own.key).unwrap())
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let (acceptor, listener) =
        (TlsAcceptor::from(Arc::new(config)), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let mut stream = acceptor.accept(stream).await?;
                tokio::io::copy_bidirectional(&mut stream, &mut TcpStream::connect(inner).await?).await
            });
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn an_encrypted_collector_gets_spans_of_those_who_show_a_certificate() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let (collector, plain) = Collector::start().await;
    let url = format!("https://{}", encrypted(&ours, plain).await);
    let own = ours.issue("client", "DNS:client");
    for (ca, is_shown, result) in [(&ours, true, "sent"), (&theirs, true, "failed"), (&ours, false, "failed")]
    {
        let files = [
            ("CERTIFICATE", ca.certificate()),
            ("CLIENT_CERTIFICATE", own.certificate.clone()),
            ("CLIENT_KEY", own.key.clone()),
        ];
        let files = &files[..if is_shown { 3 } else { 1 }];
        let files =
            files.iter().map(|(name, file)| format!("OTEL_EXPORTER_OTLP_{name}={}\n", file.display()));
        let files = files.collect::<String>();
        for (sections, environment) in [
            (format!("[trace]\nendpoint = \"{url}\"\n"), files.clone()),
            (String::new(), format!("OTEL_EXPORTER_OTLP_ENDPOINT={url}\n{files}")),
        ] {
            collector.0.lock().unwrap().clear();
            let data = tempfile::tempdir().unwrap();
            fs::write(data.path().join("environment"), &environment).unwrap();
            let server = Server::start_with(&data, &sections);
            execute_traced(&server).await;
            let number = |result: &str| server.result("trace_spans_total", result);
            let arrived = || collector.0.lock().unwrap().is_empty() != (result == "sent");
            until(&format!("spans are {result}: {sections}{environment}"), || {
                number(result) > 0.0 && arrived()
            });
            let other = if result == "sent" { "failed" } else { "sent" };
            assert_eq!(number(other), 0.0, "{other}: {sections}{environment}");
            server.stop();
        }
    }
}

const CALLER: &str = "00f067aa0ba902b7";

/// A call of [`TRACE`]; returns its cycles.
async fn execute_traced(server: &Server) -> u64 {
    let mut request = of_tenant("acme", inline(&guests::bytes("exit-imc").unwrap(), &["3"], Tier::Native));
    let parent = format!("00-{}-{CALLER}-01", "a7".repeat(16));
    request.metadata_mut().insert("traceparent", parent.parse().unwrap());
    let answer = Client::connect(server).await.execute(request).await.unwrap();
    assert_eq!(exit_code(&answer), Some(3));
    answer.verdict.unwrap().cycles
}

const SCHEMA: &str = "https://opentelemetry.io/schemas/1.44.0";

/// All data names its origin and its conventions.
fn check_origin(sent: &ResourceSpans) {
    let attributes = &sent.resource.as_ref().unwrap().attributes;
    assert_eq!(text(attributes, "service.version"), env!("CARGO_PKG_VERSION"));
    assert_ne!(text(attributes, "host.name"), "");
    assert_eq!(text(attributes, "service.instance.id").len(), 36);
    assert_eq!(sent.schema_url, SCHEMA);
    for scope in &sent.scope_spans {
        let named = scope.scope.as_ref().map(|scope| (scope.name.as_str(), scope.version.as_str()));
        assert_eq!(named, Some(("antares", env!("CARGO_PKG_VERSION"))));
        assert_eq!(scope.schema_url, SCHEMA);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_call_is_one_trace_down_to_the_worker_s_run() {
    let (collector, address) = Collector::start().await;
    let (_data, server) = started(&format!("[trace]\nendpoint = \"http://{address}\"\n"));
    let cycles = i64::try_from(execute_traced(&server).await).unwrap();
    let stopped = tokio::task::spawn_blocking(|| server.stop()).await.unwrap();
    assert_eq!(stopped, Some(0));
    let sent = collector.0.lock().unwrap().clone();
    sent.iter().for_each(|one| {
        check_origin(one);
        assert_eq!(service(one), "antares-server");
    });
    let spans: Vec<Span> = sent.iter().flat_map(ours).collect();
    let find = |name: &str| {
        let names = || spans.iter().map(|span| span.name.as_str()).collect::<Vec<_>>();
        spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("no {name} in {:?}", names()))
    };
    let number = |span: &Span, key: &str| match value(&span.attributes, key) {
        Some(Value::IntValue(number)) => number,
        other => panic!("{key} is {other:?}"),
    };
    let rpc = find("antares.v1.RunnerService/Execute");
    assert_eq!(rpc.parent_span_id, u64::from_str_radix(CALLER, 16).unwrap().to_be_bytes());
    assert_eq!(text(&rpc.attributes, "tenant"), "acme");
    assert_eq!(text(&rpc.attributes, "server.address"), "127.0.0.1");
    assert!(number(rpc, "server.port") > 0);
    for (child, parent) in [
        ("execute", "antares.v1.RunnerService/Execute"),
        ("script", "execute"),
        ("artifact", "execute"),
        ("queue", "execute"),
        ("worker", "execute"),
        ("compile", "artifact"),
        ("load", "worker"),
        ("run", "worker"),
    ] {
        assert_eq!(find(child).parent_span_id, find(parent).span_id, "{child}");
    }
    assert!(find("load").end_time_unix_nano <= find("run").start_time_unix_nano + 1_000);
    assert_eq!([number(find("run"), "cycles"), number(find("execute"), "cycles")], [cycles; 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_service_signs_its_part_of_a_trace() {
    let (collector, address) = Collector::start().await;
    let trace = format!("[trace]\nendpoint = \"http://{address}\"\n");
    let (_compilers, compiler) = alone("antares-compiler-svc", &trace);
    let sections = format!("{trace}[runner]\ncompiler_url = \"http://{}\"\n", compiler.address);
    let (_runners, runner) = alone("antares-runner-svc", &sections);
    execute_traced(&runner).await;
    // Pending spans are sent at the end.
    let stop = || (runner.stop(), compiler.stop());
    let stopped = tokio::task::spawn_blocking(stop).await.unwrap();
    assert_eq!(stopped, (Some(0), Some(0)));
    let seen = || collector.0.lock().unwrap().clone();
    for (by, name) in [
        ("antares-compiler", "antares.v1.CompilerService/Compile"),
        ("antares-runner", "antares.v1.RunnerService/Execute"),
        ("antares-runner", "run"),
    ] {
        until(&format!("{by} sends {name}"), || {
            seen().iter().any(|sent| service(sent) == by && ours(sent).iter().any(|span| span.name == name))
        });
    }
    assert!(seen().iter().all(|sent| ["antares-compiler", "antares-runner"].contains(&&*service(sent))));
}
