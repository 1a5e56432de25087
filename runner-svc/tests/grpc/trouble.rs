//! Both services under failures: an absent compiler service, a store on a full volume.

use std::{net::SocketAddr, time::Duration};

use crate::{
    guest,
    node::{Node, inline, reason, stored, wait_until},
};
use antares_abi::Sha256Digest;
use antares_proto::v1::{self, get_script_response::Part};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

async fn script_at(node: &Node, script_sha256: &str) -> Result<Vec<u8>, Status> {
    let get = v1::GetScriptRequest { script_sha256: script_sha256.to_owned() };
    let mut stream = node.compile_client().get_script(get).await?.into_inner();
    let mut bytes = Vec::new();
    while let Some(message) = stream.message().await? {
        if let Some(Part::Chunk(chunk)) = message.part {
            bytes.extend_from_slice(&chunk);
        }
    }
    Ok(bytes)
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_need_the_runner_s_address_alone() {
    let mut compiler = Node::compiler().await;
    let runner = Node::runner(compiler.address).await;
    let elf = guest::padded(300_000);
    let script_sha256 = Sha256Digest::of(&elf).to_string();
    let (code, size_bytes) = (|status: Status| (status.code(), reason(&status)), elf.len() as u64);
    let missing = code(script_at(&runner, &script_sha256).await.unwrap_err());
    assert_eq!(missing, (Code::NotFound, "SCRIPT_NOT_FOUND".to_owned()));
    let header = || v1::BlobHeader { sha256: script_sha256.clone(), size_bytes, ..Default::default() };
    let cut = code(runner.upload_as(header(), &elf[..1_000]).await.unwrap_err());
    assert_eq!(cut, (Code::InvalidArgument, "SIZE_MISMATCH".to_owned()));
    let header = v1::BlobHeader { offset: 1_000, ..header() };
    runner.upload_as(header, &elf[1_000..]).await.unwrap();
    assert!(script_at(&runner, &script_sha256).await.unwrap() == elf);
    let compile = Some(v1::CompileRequest { script_sha256: script_sha256.clone(), ..Default::default() });
    let started = v1::StartCompileRequest { compile, ..Default::default() };
    let name = runner.operation_client().start_compile(started).await.unwrap().into_inner().name;
    let wait = v1::WaitOperationRequest { name, ..Default::default() };
    runner.operation_client().wait_operation(wait).await.unwrap();
    let executed = runner.execute(stored(&elf, v1::Tier::Native)).await.unwrap();
    assert_eq!(executed.verdict.unwrap().exit_code, Some(0));
    let ask = v1::FindMissingRequest { script_sha256: vec!["a".repeat(40 << 20)] };
    let long = code(runner.compile_client().find_missing(ask).await.unwrap_err());
    assert_eq!(long, (Code::ResourceExhausted, "MESSAGE_TOO_LARGE".to_owned()), "the runner's own refusal");
    compiler.stop();
    compiler.served.take().unwrap().await.unwrap();
    let gone = script_at(&runner, &script_sha256).await.unwrap_err();
    assert!(gone.get_details_retry_info().is_some());
    assert_eq!(code(gone), (Code::Unavailable, "SOURCE_UNAVAILABLE".to_owned()));
    wait_until("that is told", || async { runner.health("antares.v1.CompilerService").await == Some(2) })
        .await;
    assert_eq!(runner.health("").await, Some(1), "it runs scripts all the same");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_without_its_compiler_interprets_what_it_has() {
    let nowhere: SocketAddr = "127.0.0.1:1".parse().unwrap();
    let runner = Node::runner(nowhere).await;
    let auto = runner.execute(inline(&guest::exits(5), v1::Tier::Auto)).await.unwrap();
    assert_eq!((auto.verdict.unwrap().exit_code, auto.fallback.as_str()), (Some(5), "source_unavailable"));
    for request in
        [inline(&guest::exits(5), v1::Tier::Native), stored(&guest::exits(5), v1::Tier::Interpreter)]
    {
        let status = runner.execute(request).await.unwrap_err();
        assert_eq!((status.code(), reason(&status).as_str()), (Code::Unavailable, "SOURCE_UNAVAILABLE"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_without_room_is_reported_and_fails_no_run() {
    let node = Node::both_without_room().await;
    // Nothing can be stored, which the health service reports; runs continue.
    assert_eq!(node.health(antares_compiler_svc::app::SERVICE).await, Some(2));
    assert_eq!(node.metric("antares_cache_state{state=\"no_space\"}"), Some(1.0));
    let elf = guest::exits(4);
    let executed = node.execute(inline(&elf, v1::Tier::Native)).await.unwrap();
    assert_eq!(executed.verdict.unwrap().exit_code, Some(4));
    let status = node.upload(&elf).await.unwrap_err();
    assert_eq!((status.code(), reason(&status).as_str()), (Code::ResourceExhausted, "STORE_FULL"));
}

#[track_caller]
fn is(status: &Status, code: Code, expected: &str) {
    assert_eq!((status.code(), reason(status).as_str()), (code, expected), "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_of_the_compiler_are_named_and_auto_goes_on_without_it() {
    let node = Node::both_with("", |config| config.compiler.code_bytes_max = 4_096).await;
    let elf = guest::padded(2_000);
    let native = node.execute(inline(&elf, v1::Tier::Native)).await.unwrap_err();
    is(&native, Code::FailedPrecondition, "LIMIT_CODE_BYTES");
    let auto = node.execute(inline(&elf, v1::Tier::Auto)).await.unwrap();
    assert_eq!((auto.verdict.unwrap().exit_code, auto.fallback.as_str()), (Some(0), "compile_refused"));
    assert_eq!(node.metric("antares_fallbacks_total{reason=\"compile_refused\"}"), Some(1.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compile_that_takes_too_long_is_stopped_and_remembered_for_a_while() {
    let node = Node::both("compiler.wall_ms_max = 1").await;
    // About a second of work: a shorter compile may finish before the clock is checked.
    let elf = guest::padded(300_000);
    for _ in 0..2 {
        let native = node.execute(inline(&elf, v1::Tier::Native)).await.unwrap_err();
        is(&native, Code::FailedPrecondition, "COMPILE_TIMEOUT");
    }
    assert_eq!(node.metric("antares_compiles_total{result=\"timeout\"}"), Some(1.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_falls_silent_is_ended_and_leaves_its_place() {
    let node = Node::both_with("", |config| {
        config.compiler.idle_max = Duration::from_millis(200);
        config.compiler.uploads_max = 1;
    })
    .await;
    let elf = guest::exits(0);
    let header = v1::BlobHeader {
        sha256: Sha256Digest::of(&elf).to_string(),
        size_bytes: elf.len() as u64,
        ..Default::default()
    };
    let first = v1::UploadRequest { part: Some(v1::upload_request::Part::Header(header)) };
    let (parts, silent) = tokio::sync::mpsc::channel(1);
    parts.send(first).await.unwrap();
    let status = node.compile_client().upload(tokio_stream::wrappers::ReceiverStream::new(silent)).await;
    is(&status.unwrap_err(), Code::Aborted, "UPLOAD_IDLE");
    node.upload(&elf).await.unwrap();
}
