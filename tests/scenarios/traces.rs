//! Spans as a trace collector receives them: of one call through two processes, and encrypted.

use std::{
    collections::BTreeSet,
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
    common::v1::any_value::Value,
    trace::v1::ResourceSpans,
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
    client::{Client, exit_code, inline},
    server::{Server, until},
};

const TRACE: [u8; 16] = [0xa7; 16];

/// The service that sent each span of [`TRACE`].
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<BTreeSet<(String, String)>>>);

/// `service.name` of the sender of `spans`.
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
            let number =
                |result: &str| server.metric(&format!("antares_trace_spans_total{{result=\"{result}\"}}"));
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

/// A call of [`TRACE`].
async fn execute_traced(server: &Server) {
    let mut request = Request::new(inline(&guests::bytes("exit-imc").unwrap(), &["3"], Tier::Native));
    let parent = format!("00-{}-00f067aa0ba902b7-01", "a7".repeat(16));
    request.metadata_mut().insert("traceparent", parent.parse().unwrap());
    let answer = Client::connect(server).await.runner.execute(request).await.unwrap().into_inner();
    assert_eq!(exit_code(&answer), Some(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_service_signs_its_part_of_a_trace() {
    let (collector, address) = Collector::start().await;
    let trace = format!("[trace]\nendpoint = \"http://{address}\"\n");
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let compiler = Server::start_program("antares-compiler-svc", &[], &folders[0], &trace);
    let sections = format!("{trace}[runner]\ncompiler_url = \"http://{}\"\n", compiler.address);
    let runner = Server::start_program("antares-runner-svc", &[], &folders[1], &sections);
    execute_traced(&runner).await;
    // Pending spans are sent at the end.
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
