//! Operators' actions on a running server, and compiles without an open call.

use std::process::Command;

use antares_abi::Sha256Digest;
use antares_pool::worker_path;
use antares_proto::v1::{
    self, OperationState, admin_service_client::AdminServiceClient,
    operation_service_client::OperationServiceClient, store_service_client::StoreServiceClient,
};
use antares_tests::guests;
use tonic::{Code, transport::Channel};

use crate::{
    client::{Client, reason, serving},
    server::{Server, children, until},
};

/// The binary of compile workers.
const WORKER: &str = "antares-compile-worker";

async fn channel(server: &Server) -> Channel {
    Channel::from_shared(format!("http://{}", server.address)).unwrap().connect().await.unwrap()
}

fn compile(elf: &[u8]) -> Option<v1::CompileRequest> {
    let script_sha256 = Sha256Digest::of(elf).to_string();
    Some(v1::CompileRequest { script_sha256, ..Default::default() })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compile_goes_on_without_its_caller() {
    let (_data, server, mut client) = serving("").await;
    let mut operations = OperationServiceClient::new(channel(&server).await);
    let elf = guests::bytes("exit-imc").unwrap();
    // A failed compile reports the reason.
    let request = v1::StartCompileRequest { compile: compile(&elf), priority: 0 };
    let name = operations.start_compile(request.clone()).await.unwrap().into_inner().name;
    let wait = |name: &str| v1::WaitOperationRequest { name: name.to_owned(), timeout_ms: None };
    let failed = operations.wait_operation(wait(&name)).await.unwrap().into_inner();
    assert_eq!(failed.state(), OperationState::Failed);
    let error = failed.error.unwrap();
    assert_eq!((error.code, error.reason.as_str()), (i32::from(Code::NotFound), "SCRIPT_NOT_FOUND"));

    client.upload(&elf).await.unwrap();
    let mut names = vec![name];
    for priority in [v1::Priority::Interactive, v1::Priority::WarmUp] {
        let request = v1::StartCompileRequest { compile: compile(&elf), priority: priority.into() };
        let started = OperationServiceClient::new(channel(&server).await).start_compile(request).await;
        names.push(started.unwrap().into_inner().name);
    }
    for name in &names[1..] {
        let done = operations.wait_operation(wait(name)).await.unwrap().into_inner();
        assert_eq!(done.state(), OperationState::Done, "{done:?}");
        assert!(done.age_ms >= done.queued_ms);
        assert!(done.response.unwrap().stored);
    }
    let listed = operations.list_operations(v1::ListOperationsRequest {}).await.unwrap().into_inner();
    assert_eq!(
        listed.operations.iter().map(|one| &one.name).collect::<Vec<_>>(),
        names.iter().collect::<Vec<_>>()
    );
    // A completed operation keeps its result.
    let cancel = |name: &str| v1::CancelOperationRequest { name: name.to_owned() };
    let done = operations.cancel_operation(cancel(&names[1])).await.unwrap().into_inner();
    assert_eq!(done.state(), OperationState::Done);
    for unknown in ["", "operations/0", &"x".repeat(5_000)] {
        let status = operations.cancel_operation(cancel(unknown)).await.unwrap_err();
        assert_eq!((status.code(), reason(&status).as_str()), (Code::NotFound, "OPERATION_NOT_FOUND"));
    }
    let explained = client.compiler.explain_artifact(v1::ExplainArtifactRequest {
        artifact_key: operations
            .get_operation(v1::GetOperationRequest { name: names[1].clone() })
            .await
            .unwrap()
            .into_inner()
            .response
            .unwrap()
            .artifact_key,
    });
    let explained = explained.await.unwrap().into_inner();
    assert_eq!(explained.script_sha256, Sha256Digest::of(&elf).to_string());
    assert_eq!((explained.refused.as_str(), explained.key_id.is_empty()), ("", false));
}

/// A script whose compile takes a worker seconds.
const LONG: &str = "sphincs-imc";

#[tokio::test(flavor = "multi_thread")]
async fn a_compile_that_nobody_waits_for_any_more_ends_with_its_workers() {
    // Parts of a script of this size are compiled by several workers.
    let (_data, server, mut client) = serving("[compiler]\nworkers_max = 3\nbaseline = false\n").await;
    let mut operations = OperationServiceClient::new(channel(&server).await);
    let (elf, small) = (guests::bytes(LONG).unwrap(), guests::bytes("exit-imc").unwrap());
    client.upload(&elf).await.unwrap();
    client.upload(&small).await.unwrap();
    let compiles = |result: &str| server.metric(&format!("antares_compiles_total{{result=\"{result}\"}}"));
    let workers = || server.zygote(WORKER).map(children).unwrap_or_default();
    let start = v1::StartCompileRequest { compile: compile(&elf), priority: 0 };
    for round in 1..=3 {
        let name = operations.start_compile(start.clone()).await.unwrap().into_inner().name;
        server.busy_worker(WORKER);
        // An expired wait is a valid response.
        let brief = v1::WaitOperationRequest { name: name.clone(), timeout_ms: Some(1) };
        operations.wait_operation(brief).await.unwrap();
        let cancelled = operations.cancel_operation(v1::CancelOperationRequest { name }).await;
        assert_eq!(cancelled.unwrap().into_inner().state(), OperationState::Cancelled);
        until("its workers are gone", || workers().is_empty());
        until("it is counted", || compiles("cancelled") == f64::from(round));
    }
    assert_eq!(compiles("done"), 0.0);
    // The workers are free, and the compile leaves no trace.
    assert!(client.compiler.compile(compile(&small).unwrap()).await.unwrap().into_inner().stored);
    // A client that disconnects cancels nothing.
    let mut leaving = client.clone();
    let call = tokio::spawn(async move { leaving.compiler.compile(start.compile.unwrap()).await });
    server.busy_worker(WORKER);
    call.abort();
    until("it has ended by itself", || compiles("done") == 2.0);
    assert_eq!(compiles("cancelled"), 3.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_revokes_changes_the_log_and_drains() {
    let (_data, server, mut client) = serving("").await;
    let mut admin = AdminServiceClient::new(channel(&server).await);
    let elf = guests::bytes("exit-imc").unwrap();
    client.upload(&elf).await.unwrap();
    let compiled = client.compiler.compile(compile(&elf).unwrap()).await.unwrap().into_inner();
    assert_eq!(
        client.compiler.compile(compile(&elf).unwrap()).await.unwrap().into_inner().cache(),
        v1::CacheUse::Hit
    );
    // In force at once: it is no longer a hit, and a compile reproduces the same bytes.
    admin.revoke(v1::RevokeRequest { name: compiled.artifact_sha256 }).await.unwrap();
    let status = client.compiler.compile(compile(&elf).unwrap()).await.unwrap_err();
    assert_eq!((status.code(), reason(&status).as_str()), (Code::FailedPrecondition, "ARTIFACT_REVOKED"));
    for name in ["", "nonsense", &"0".repeat(16)] {
        let status = admin.revoke(v1::RevokeRequest { name: name.to_owned() }).await.unwrap_err();
        assert_eq!(
            (status.code(), reason(&status).as_str()),
            (Code::InvalidArgument, "REQUEST_INVALID"),
            "{name}"
        );
    }
    let mut filter = async |filter: &str| {
        let asked = v1::SetLogFilterRequest { filter: filter.to_owned() };
        admin.set_log_filter(asked).await.map(|answer| answer.into_inner().previous)
    };
    assert_eq!(filter("warn,antares_pool=debug").await.unwrap(), "info,opentelemetry=warn");
    assert_eq!(filter("info").await.unwrap(), "warn,antares_pool=debug");
    assert_eq!(filter("antares=loud").await.unwrap_err().code(), Code::InvalidArgument);
    // A repeated drain has no further effect.
    admin.drain(v1::DrainRequest {}).await.unwrap();
    let _ = admin.drain(v1::DrainRequest {}).await;
    until("the server says that it goes", || !server.is_ready());
    let mut server = server;
    assert_eq!(server.wait(), Some(0));
}

/// Standard output of `antares WORDS --server SERVER`, or its error.
fn said(words: &[&str], server: &str) -> Result<String, String> {
    let mut command = Command::new(worker_path("antares").unwrap());
    let output = command.args(words).args(["--server", server]).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_is_who_may_open_the_socket() {
    let data = tempfile::tempdir().unwrap();
    let socket = data.path().join("admin.sock");
    let sections =
        format!("[admin]\nsocket = {socket:?}\n[listen]\ncalls_max = 1\n[compiler]\nbaseline = false\n");
    let mut server = Server::start_with(&data, &sections);
    let at = format!("unix://{}", socket.display());
    let mut client = Client::connect(&server).await;
    let elf = guests::bytes("exit-imc").unwrap();
    client.upload(&elf).await.unwrap();
    client.compiler.compile(compile(&elf).unwrap()).await.unwrap();
    let script = Sha256Digest::of(&elf).to_string();
    // No network address makes a caller an operator, not even a local one.
    let refused = said(&["admin", "revoke", &script], &server.address).unwrap_err();
    assert!(refused.contains("admin.socket") && refused.contains("admin.loopback"), "{refused}");
    assert!(said(&["ls", "--stored"], &server.address).is_err());
    assert!(said(&["ls", "--stored"], &at).unwrap().contains(&script));
    // While a call uses the only slot.
    let (chunks, stream) = tokio::sync::mpsc::channel(1);
    let mut holding = client.clone();
    let held = tokio::spawn(async move {
        let stream = tokio_stream::wrappers::ReceiverStream::new(stream);
        holding.compiler.upload(stream).await.map(drop)
    });
    until("the only place is taken", || server.metric("antares_calls_in_progress") >= 1.0);
    let revoked = said(&["admin", "revoke", &script], &at).unwrap();
    assert!(revoked.starts_with(&format!("{script}  revoked\n")), "{revoked}");
    assert_eq!(revoked.matches("  stopped with it\n").count(), 1, "{revoked}");
    drop::<tokio::sync::mpsc::Sender<v1::UploadRequest>>(chunks);
    drop(held.await.unwrap());
    let library = revoked.lines().nth(1).unwrap().split("  ").next().unwrap().to_owned();
    let revoked = said(&["admin", "revoke", &library], &at).unwrap();
    assert!(revoked.contains(&format!("{script}  its script goes on: revoke it too\n")), "{revoked}");
    let revoked = said(&["admin", "revoke", &"5".repeat(64)], &at).unwrap();
    assert!(revoked.ends_with("nothing of it is stored here\n"), "{revoked}");
    assert_eq!(said(&["admin", "drain"], &at).unwrap(), "draining\n");
    assert_eq!(server.wait(), Some(0));
    assert!(!socket.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_stored_is_reported_in_pages() {
    let (_data, server, mut client) = serving("").await;
    let mut expected = Vec::new();
    for number in 0..5_u8 {
        let blob = [number; 100];
        client.upload(&blob).await.unwrap();
        expected.push(Sha256Digest::of(&blob).to_string());
    }
    expected.sort_unstable();
    let mut store = StoreServiceClient::new(channel(&server).await);
    let mut page = async |kind: v1::StoredKind, page_size: u32, page_token: &str| {
        let asked = v1::ListStoredRequest { kind: kind.into(), page_size, page_token: page_token.to_owned() };
        let page = store.list_stored(asked).await?.into_inner();
        let keys: Vec<_> = page.entries.into_iter().map(|entry| entry.key).collect();
        Ok::<_, tonic::Status>((keys, page.next_page_token))
    };
    // The last page says so, even if it is full.
    for (size, pages) in [(1, 5), (2, 3), (5, 1), (6, 1), (0, 1), (u32::MAX, 1)] {
        let (mut all, mut token, mut count) = (Vec::new(), String::new(), 0);
        loop {
            let (keys, next) = page(v1::StoredKind::Script, size, &token).await.unwrap();
            all.extend(keys);
            (token, count) = (next, count + 1);
            if token.is_empty() {
                break;
            }
        }
        assert_eq!((&all, count), (&expected, pages), "of {size}");
    }
    let (_, of_scripts) = page(v1::StoredKind::Script, 1, "").await.unwrap();
    for token in ["x", &expected[0], &of_scripts] {
        let status = page(v1::StoredKind::Artifact, 1, token).await.unwrap_err();
        assert_eq!((status.code(), reason(&status).as_str()), (Code::InvalidArgument, "REQUEST_INVALID"));
    }
}
