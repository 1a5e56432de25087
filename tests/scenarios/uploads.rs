//! Uploads in progress: they are on the volume rather than in memory, can be resumed, belong to their tenant,
//! and expire.

use std::time::Instant;

use antares_abi::Sha256Digest;
use antares_proto::v1::{
    self, compiler_service_client::CompilerServiceClient, get_script_response, upload_request::Part,
};
use bytes::Bytes;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, transport::Channel};
use tonic_types::StatusExt as _;

use crate::{
    admission::{GREEDY, MODEST, connect, junk},
    client::{Client, reason, serving},
    server::{PATIENCE, Server, until},
};

const CHUNK: usize = 64 << 10;

/// An upload that sends on request.
struct Open {
    parts: mpsc::Sender<v1::UploadRequest>,
    answer: tokio::task::JoinHandle<Result<v1::UploadResponse, Status>>,
}

impl Open {
    /// Starts to upload `bytes` at `offset`.
    async fn begin(channel: &Channel, bytes: &[u8], offset: u64) -> Self {
        Self::begin_as(channel, bytes, bytes.len(), offset).await
    }

    /// As [`Open::begin`], with another size.
    async fn begin_as(channel: &Channel, bytes: &[u8], size: usize, offset: u64) -> Self {
        let header = v1::BlobHeader {
            sha256: Sha256Digest::of(bytes).to_string(),
            size_bytes: size as u64,
            offset,
            ..Default::default()
        };
        let (parts, receiver) = mpsc::channel(1);
        let mut client = CompilerServiceClient::new(channel.clone());
        let answer = tokio::spawn(async move {
            client.upload(ReceiverStream::new(receiver)).await.map(tonic::Response::into_inner)
        });
        let open = Self { parts, answer };
        open.say(Part::Header(header)).await;
        open
    }

    /// Sends a part; the receiver may be gone.
    async fn say(&self, part: Part) {
        let _ = self.parts.send(v1::UploadRequest { part: Some(part) }).await;
    }

    async fn send(&self, bytes: &[u8]) {
        for chunk in bytes.chunks(CHUNK) {
            self.say(Part::Chunk(Bytes::copy_from_slice(chunk))).await;
        }
    }

    /// Completes the upload.
    async fn end(self) -> Result<v1::UploadResponse, Status> {
        drop(self.parts);
        self.answer.await.unwrap()
    }
}

async fn query(channel: &Channel, bytes: &[u8]) -> v1::QueryUploadResponse {
    let asked = v1::QueryUploadRequest { script_sha256: Sha256Digest::of(bytes).to_string() };
    CompilerServiceClient::new(channel.clone()).query_upload(asked).await.unwrap().into_inner()
}

/// Waits until this much of `bytes` has arrived.
async fn comes_to(channel: &Channel, bytes: &[u8], received: usize) {
    let end = Instant::now() + PATIENCE;
    loop {
        let now = query(channel, bytes).await.received_bytes;
        if now == received as u64 {
            return;
        }
        assert!(Instant::now() < end, "{now} and not {received}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// Sends the first `count` bytes and ends too early: the upload is then idle.
async fn break_off_after(channel: &Channel, bytes: &[u8], count: usize) {
    let open = Open::begin(channel, bytes, 0).await;
    open.send(&bytes[..count]).await;
    is(open.end().await, Code::InvalidArgument, "SIZE_MISMATCH");
    assert_eq!(query(channel, bytes).await.received_bytes, count as u64);
}

#[track_caller]
fn is(answer: Result<v1::UploadResponse, Status>, code: Code, why: &str) -> Status {
    let status = answer.unwrap_err();
    assert_eq!((status.code(), &*reason(&status)), (code, why), "{status}");
    status
}

async fn stored(channel: &Channel, bytes: &[u8]) -> Vec<u8> {
    let asked = v1::GetScriptRequest { script_sha256: Sha256Digest::of(bytes).to_string() };
    let mut parts = CompilerServiceClient::new(channel.clone()).get_script(asked).await.unwrap().into_inner();
    let mut all = Vec::new();
    while let Some(part) = parts.message().await.unwrap() {
        if let Some(get_script_response::Part::Chunk(chunk)) = part.part {
            all.extend_from_slice(&chunk);
        }
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_goes_on_where_it_broke_off() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(&data);
    let (mine, other) = (connect(&server, GREEDY).await, connect(&server, MODEST).await);
    let mut script = junk(1, 1 << 20);
    script[500_000..].fill(2);
    let half = 8 * CHUNK;
    break_off_after(&mine, &script, half).await;
    assert!(server.metric("antares_partial_upload_bytes") >= half as f64);
    // Other tenants do not see it.
    assert_eq!(query(&other, &script).await, v1::QueryUploadResponse::default());
    let strange = is(
        Open::begin(&other, &script, half as u64).await.end().await,
        Code::FailedPrecondition,
        "UPLOAD_OFFSET",
    );
    assert_eq!(strange.get_details_error_info().unwrap().metadata["received_bytes"], "0");
    for offset in [half - 1, half + 1, CHUNK, script.len()] {
        let answer = Open::begin(&mine, &script, offset as u64).await.end().await;
        let status = is(answer, Code::FailedPrecondition, "UPLOAD_OFFSET");
        assert_eq!(status.get_details_error_info().unwrap().metadata["received_bytes"], half.to_string());
    }
    let other_size = Open::begin_as(&mine, &script, script.len() - 1, half as u64).await.end().await;
    is(other_size, Code::InvalidArgument, "SIZE_MISMATCH");
    let beyond = Open::begin(&mine, &script, script.len() as u64 + 1).await.end().await;
    is(beyond, Code::InvalidArgument, "UPLOAD_MALFORMED");
    let open = Open::begin(&mine, &script, half as u64).await;
    open.send(&script[half..]).await;
    let answer = open.end().await.unwrap();
    assert_eq!((answer.size_bytes, answer.already_stored), (script.len() as u64, false));
    assert!(stored(&mine, &script).await == script);
    let now = query(&mine, &script).await;
    assert_eq!((now.received_bytes, now.stored), (0, true));
    assert_eq!(server.metric("antares_uploads_resumed_total"), 1.0);
    assert_eq!(server.metric("antares_partial_uploads"), 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_does_not_stay() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(&data);
    let channel = connect(&server, GREEDY).await;
    let (script, other) = (junk(1, 4 * CHUNK), junk(2, 4 * CHUNK));
    // The rest of another script: the hash covers all of it.
    break_off_after(&channel, &script, 2 * CHUNK).await;
    let open = Open::begin(&channel, &script, 2 * CHUNK as u64).await;
    open.send(&other[2 * CHUNK..]).await;
    is(open.end().await, Code::InvalidArgument, "DIGEST_MISMATCH");
    assert_eq!(query(&channel, &script).await, v1::QueryUploadResponse::default());
    // Less than announced, which counts as an interruption; a different size; and more.
    let open = Open::begin(&channel, &script, 0).await;
    open.send(&script[..CHUNK]).await;
    is(open.end().await, Code::InvalidArgument, "SIZE_MISMATCH");
    assert_eq!(query(&channel, &script).await.received_bytes, CHUNK as u64);
    break_off_after(&channel, &script, 2 * CHUNK).await;
    let open = Open::begin(&channel, &script, 2 * CHUNK as u64).await;
    open.send(&script[CHUNK..]).await;
    is(open.end().await, Code::InvalidArgument, "SIZE_MISMATCH");
    assert_eq!(query(&channel, &script).await.received_bytes, 0);
    // Data that is not a script is accepted as well.
    let mut text = junk(3, CHUNK);
    text[18] = 62;
    break_off_after(&channel, &text, 10).await;
    let open = Open::begin(&channel, &text, 10).await;
    open.send(&text[10..]).await;
    open.end().await.unwrap();
    assert_eq!(stored(&channel, &text).await, text);
    until("nothing stays", || server.metric("antares_partial_uploads") == 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_goes_on_takes_over() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(&data);
    let channel = connect(&server, GREEDY).await;
    let script = junk(1, 4 * CHUNK);
    let first = Open::begin(&channel, &script, 0).await;
    first.send(&script[..2 * CHUNK]).await;
    comes_to(&channel, &script, 2 * CHUNK).await;
    // The first connection may be dead without notice.
    let second = Open::begin(&channel, &script, 2 * CHUNK as u64).await;
    second.send(&script[2 * CHUNK..3 * CHUNK]).await;
    comes_to(&channel, &script, 3 * CHUNK).await;
    first.send(&script[2 * CHUNK..]).await;
    is(first.answer.await.unwrap(), Code::Aborted, "UPLOAD_TAKEN_OVER");
    second.send(&script[3 * CHUNK..]).await;
    second.end().await.unwrap();
    assert!(stored(&channel, &script).await == script);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_broke_off_gives_way_and_ends() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start_with(
        &data,
        "[compiler]\nscript_bytes_max = 1048576\n[tuned]\npartial_uploads_max = 6\nupload_bytes_max = 2097152\n",
    );
    let channel = connect(&server, GREEDY).await;
    let scripts: Vec<_> = (0..5).map(|number| junk(number, 8 * CHUNK)).collect();
    // Three are one tenant's share: the oldest idle one is dropped.
    for script in &scripts[..4] {
        break_off_after(&channel, script, CHUNK).await;
    }
    assert_eq!(query(&channel, &scripts[0]).await.received_bytes, 0);
    comes_to(&channel, &scripts[3], CHUNK).await;
    assert_eq!(server.metric("antares_uploads_dropped_total{reason=\"room\"}"), 1.0);
    // Sixteen chunks are one tenant's share: idle uploads are dropped, then capacity is exhausted.
    let mut open = Vec::new();
    for script in &scripts[..2] {
        let one = Open::begin(&channel, script, 0).await;
        one.send(&script[..7 * CHUNK]).await;
        comes_to(&channel, script, 7 * CHUNK).await;
        open.push(one);
    }
    let third = Open::begin(&channel, &scripts[2], 0).await;
    third.send(&scripts[2]).await;
    let status = is(third.answer.await.unwrap(), Code::ResourceExhausted, "UPLOAD_BYTES");
    assert!(status.get_details_retry_info().is_some());
    // The earlier part remains, and can be resumed.
    comes_to(&channel, &scripts[2], 2 * CHUNK).await;
    let third = Open::begin(&channel, &scripts[2], 2 * CHUNK as u64).await;
    until("it is gone on with", || server.metric("antares_uploads_resumed_total") == 1.0);
    let fourth = Open::begin(&channel, &scripts[4], 0).await;
    is(fourth.answer.await.unwrap(), Code::ResourceExhausted, "UPLOAD_BYTES");
    // Another client has capacity.
    Client {
        compiler: CompilerServiceClient::new(connect(&server, MODEST).await),
        ..Client::connect(&server).await
    }
    .upload(&scripts[4])
    .await
    .unwrap();
    drop((open, third));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_goes_on_with_ends_with_its_time_or_the_process() {
    let data = tempfile::tempdir().unwrap();
    let script = junk(1, 8 * CHUNK);
    {
        let server = Server::start(&data);
        let channel = connect(&server, GREEDY).await;
        break_off_after(&channel, &script, 4 * CHUNK).await;
        assert_eq!(query(&channel, &script).await.received_bytes, 4 * CHUNK as u64);
    }
    let server = Server::start_with(&data, "[tuned]\nupload_keep_ms = 1\n");
    let channel = connect(&server, GREEDY).await;
    assert_eq!(query(&channel, &script).await.received_bytes, 0);
    let open = Open::begin(&channel, &script, 0).await;
    open.send(&script[..4 * CHUNK]).await;
    is(open.end().await, Code::InvalidArgument, "SIZE_MISMATCH");
    until("it is dropped", || server.metric("antares_uploads_dropped_total{reason=\"expired\"}") == 1.0);
    assert_eq!(query(&channel, &script).await.received_bytes, 0);
    assert_eq!(server.metric("antares_partial_upload_bytes"), 0.0);
}

/// Growth of the service's resident memory during 16 uploads of 16 MiB, 256 MiB together, bytes: a chunk and
/// the window of a stream for each; 3 and 4 MiB were measured.
const UPLOADS_MEMORY_MAX: u64 = 32 << 20;

/// The same until they are stored, one at a time. The store's pages stay in memory until they are on the
/// disk, which other disk load delays; 164 to 260 MiB were measured.
const STORED_MEMORY_MAX: u64 = 384 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn parallel_uploads_are_not_held_in_memory() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(&data);
    let channel = connect(&server, GREEDY).await;
    let before = server.memory_high();
    let mut begun = Vec::new();
    for number in 0..16_u8 {
        let channel = channel.clone();
        begun.push(tokio::spawn(async move {
            let script = junk(number, 16 << 20);
            let (most, rest) = script.split_at(script.len() - CHUNK);
            let open = Open::begin(&channel, &script, 0).await;
            open.send(most).await;
            comes_to(&channel, &script, most.len()).await;
            (open, rest.to_vec())
        }));
    }
    let mut open = Vec::new();
    for one in begun {
        open.push(one.await.unwrap());
    }
    let on_their_way = server.memory_high() - before;
    assert!(server.metric("antares_partial_upload_bytes") >= 16.0 * 15.0 * 1_048_576.0);
    let ends = open.into_iter().map(|(one, rest)| {
        tokio::spawn(async move {
            one.send(&rest).await;
            one.end().await
        })
    });
    for end in ends.collect::<Vec<_>>() {
        end.await.unwrap().unwrap();
    }
    let (grown, now) = (server.memory_high() - before, server.possessions()[3]);
    println!("{} MiB on their way, {} MiB at most, {now} KiB resident now", on_their_way >> 20, grown >> 20);
    assert!(on_their_way < UPLOADS_MEMORY_MAX, "{} MiB", on_their_way >> 20);
    assert!(grown < STORED_MEMORY_MAX, "{} MiB", grown >> 20);
}

/// Maximum memory of the server's own process, whatever it receives, bytes.
const GIGABYTE_MEMORY_MAX: u64 = 256 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn a_gigabyte_is_refused_without_being_read() {
    let (_data, server, mut client) = serving("").await;
    let digest = Sha256Digest::of(b"").to_string();
    // Once correctly declared, once under a header with a smaller size.
    for (size_bytes, expected) in [(1 << 30, "SCRIPT_TOO_LARGE"), (1000, "SIZE_MISMATCH")] {
        let header =
            Part::Header(v1::BlobHeader { sha256: digest.clone(), size_bytes, ..Default::default() });
        let chunk = Bytes::from(vec![7; 64 << 10]);
        let chunks = (0..(1 << 30) / (64 << 10)).map(move |_| Part::Chunk(chunk.clone()));
        let parts = [header].into_iter().chain(chunks).map(|part| v1::UploadRequest { part: Some(part) });
        let status = client.compiler.upload(tokio_stream::iter(parts)).await.unwrap_err();
        assert_eq!((status.code(), reason(&status).as_str()), (Code::InvalidArgument, expected), "{status}");
    }
    assert!(server.memory_high() < GIGABYTE_MEMORY_MAX, "{} bytes", server.memory_high());
    assert!(server.is_ready());
}
