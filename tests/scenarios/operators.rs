//! Operators' actions on a running server, and compiles without an open call.

use antares_proto::v1::{self, OperationState};
use antares_tests::guests;
use tonic::Code;

use crate::{
    client::{Client, compile, digest, is, serving},
    server::{Server, antares, children, until},
};

/// The binary of compile workers.
const WORKER: &str = "antares-compile-worker";

#[tokio::test(flavor = "multi_thread")]
async fn a_compile_goes_on_without_its_caller() {
    let (_data, server, mut client) = serving("").await;
    let mut operations = client.operations.clone();
    let elf = guests::bytes("exit-imc").unwrap();
    // A failed compile reports the reason.
    let request = v1::StartCompileRequest { compile: Some(compile(&elf)), priority: 0 };
    let name = operations.start_compile(request).await.unwrap().into_inner().name;
    let wait = |name: &str| v1::WaitOperationRequest { name: name.to_owned(), timeout_ms: None };
    let failed = operations.wait_operation(wait(&name)).await.unwrap().into_inner();
    assert_eq!(failed.state(), OperationState::Failed);
    let error = failed.error.unwrap();
    assert_eq!((error.code, error.reason.as_str()), (i32::from(Code::NotFound), "SCRIPT_NOT_FOUND"));

    client.upload(&elf).await.unwrap();
    let mut names = vec![name];
    for priority in [v1::Priority::Interactive, v1::Priority::WarmUp] {
        let request = v1::StartCompileRequest { compile: Some(compile(&elf)), priority: priority.into() };
        let started = Client::connect(&server).await.operations.start_compile(request).await;
        names.push(started.unwrap().into_inner().name);
    }
    for name in &names[1..] {
        let done = operations.wait_operation(wait(name)).await.unwrap().into_inner();
        assert_eq!(done.state(), OperationState::Done, "{done:?}");
        assert!(done.age_ms >= done.queued_ms);
        assert!(done.response.unwrap().stored);
    }
    let listed = operations.list_operations(v1::ListOperationsRequest {}).await.unwrap().into_inner();
    assert!(listed.operations.iter().map(|one| &one.name).eq(&names), "{listed:?}");
    // A completed operation keeps its result.
    let cancel = |name: &str| v1::CancelOperationRequest { name: name.to_owned() };
    let done = operations.cancel_operation(cancel(&names[1])).await.unwrap().into_inner();
    assert_eq!(done.state(), OperationState::Done);
    for unknown in ["", "operations/0", &"x".repeat(5_000)] {
        let status = operations.cancel_operation(cancel(unknown)).await.unwrap_err();
        is(&status, Code::NotFound, "OPERATION_NOT_FOUND");
    }
    let get = v1::GetOperationRequest { name: names[1].clone() };
    let got = operations.get_operation(get).await.unwrap().into_inner();
    let request = v1::ExplainArtifactRequest { artifact_key: got.response.unwrap().artifact_key };
    let explained = client.compiler.explain_artifact(request).await.unwrap().into_inner();
    assert_eq!(explained.script_sha256, digest(&elf));
    assert_eq!((explained.refused.as_str(), explained.key_id.is_empty()), ("", false));
}

/// A script whose compile takes a worker seconds.
const LONG: &str = "sphincs-imc";

#[tokio::test(flavor = "multi_thread")]
async fn a_compile_that_nobody_waits_for_any_more_ends_with_its_workers() {
    // Parts of a script of this size are compiled by several workers.
    let (_data, server, client) = serving("[compiler]\nworkers_max = 3\nbaseline = false\n").await;
    let mut operations = client.operations.clone();
    let (elf, small) = (guests::bytes(LONG).unwrap(), guests::bytes("exit-imc").unwrap());
    client.upload(&elf).await.unwrap();
    client.upload(&small).await.unwrap();
    let compiles = |result: &str| server.result("compiles_total", result);
    let workers = || server.zygote(WORKER).map(children).unwrap_or_default();
    let start = v1::StartCompileRequest { compile: Some(compile(&elf)), priority: 0 };
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
    assert!(client.compile(&small).await.unwrap().stored);
    // A client that disconnects cancels nothing.
    let leaving = client.clone();
    let call = tokio::spawn(async move { leaving.compile(&elf).await });
    server.busy_worker(WORKER);
    call.abort();
    until("it has ended by itself", || compiles("done") == 2.0);
    assert_eq!(compiles("cancelled"), 3.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_revokes_changes_the_log_and_drains() {
    let (_data, server, client) = serving("").await;
    let mut admin = client.admin.clone();
    let elf = guests::bytes("exit-imc").unwrap();
    client.upload(&elf).await.unwrap();
    let compiled = client.compile(&elf).await.unwrap();
    assert_eq!(client.compile(&elf).await.unwrap().cache(), v1::CacheUse::Hit);
    // In force at once: it is no longer a hit, and a compile reproduces the same bytes.
    admin.revoke(v1::RevokeRequest { name: compiled.artifact_sha256 }).await.unwrap();
    is(&client.compile(&elf).await.unwrap_err(), Code::FailedPrecondition, "ARTIFACT_REVOKED");
    for name in ["", "nonsense", &"0".repeat(16)] {
        let status = admin.revoke(v1::RevokeRequest { name: name.to_owned() }).await.unwrap_err();
        is(&status, Code::InvalidArgument, "REQUEST_INVALID");
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
    let output = antares(words).args(["--server", server]).output().unwrap();
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
    let client = Client::connect(&server).await;
    let elf = guests::bytes("exit-imc").unwrap();
    client.upload(&elf).await.unwrap();
    client.compile(&elf).await.unwrap();
    let script = digest(&elf);
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
    let (_data, _server, mut client) = serving("").await;
    let mut expected = Vec::new();
    for number in 0..5_u8 {
        let blob = [number; 100];
        client.upload(&blob).await.unwrap();
        expected.push(digest(&blob));
    }
    expected.sort_unstable();
    let mut page = async |kind: v1::StoredKind, page_size: u32, page_token: &str| {
        let asked = v1::ListStoredRequest { kind: kind.into(), page_size, page_token: page_token.to_owned() };
        let page = client.store.list_stored(asked).await?.into_inner();
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
        is(&status, Code::InvalidArgument, "REQUEST_INVALID");
    }
}
