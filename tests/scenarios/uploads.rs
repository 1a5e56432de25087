//! Uploads in progress: they are on the volume rather than in memory, can be resumed, belong to their tenant,
//! and expire.

use std::net::Ipv4Addr;

use antares_proto::v1::{self, upload_request::Part};
use bytes::Bytes;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::{
    admission::{GREEDY, MODEST, connect, junk},
    client::{self, Client, Token, digest, header, serving},
    server::{Server, eventually, started, until},
};

const CHUNK: usize = 64 << 10;

/// An upload that sends on request.
struct Open {
    parts: mpsc::Sender<v1::UploadRequest>,
    answer: tokio::task::JoinHandle<Result<v1::UploadResponse, Status>>,
}

impl Open {
    /// Starts to upload `bytes` at `offset`.
    async fn begin(client: &Client, bytes: &[u8], offset: usize) -> Self {
        let header = v1::BlobHeader { offset: offset as u64, ..header(bytes) };
        let (parts, receiver) = mpsc::channel(1);
        let mut compiler = client.compiler.clone();
        let answer = tokio::spawn(async move {
            compiler.upload(ReceiverStream::new(receiver)).await.map(tonic::Response::into_inner)
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

async fn query(client: &Client, bytes: &[u8]) -> v1::QueryUploadResponse {
    let asked = v1::QueryUploadRequest { script_sha256: digest(bytes) };
    client.compiler.clone().query_upload(asked).await.unwrap().into_inner()
}

/// Waits until this much of `bytes` has arrived.
async fn comes_to(client: &Client, bytes: &[u8], received: usize) {
    let what = format!("{received} bytes have arrived");
    eventually(&what, async || query(client, bytes).await.received_bytes == received as u64).await;
}

/// Uploads `rest` as the bytes of `bytes` from `offset` on.
async fn upload_from(
    client: &Client,
    bytes: &[u8],
    offset: usize,
    rest: &[u8],
) -> Result<v1::UploadResponse, Status> {
    client.upload_as(v1::BlobHeader { offset: offset as u64, ..header(bytes) }, rest).await
}

/// A client at its own address.
async fn client_at(server: &Server, from: Ipv4Addr) -> Client {
    Client::over(connect(server, from).await, Token::default())
}

/// Sends the first `count` bytes and ends too early: the upload is then idle.
async fn break_off_after(client: &Client, bytes: &[u8], count: usize) {
    is(client.upload_as(header(bytes), &bytes[..count]).await, Code::InvalidArgument, "SIZE_MISMATCH");
    assert_eq!(query(client, bytes).await.received_bytes, count as u64);
}

#[track_caller]
fn is(answer: Result<v1::UploadResponse, Status>, code: Code, why: &str) -> Status {
    let status = answer.unwrap_err();
    client::is(&status, code, why);
    status
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_goes_on_where_it_broke_off() {
    let (_data, server) = started("");
    let (mine, other) = (client_at(&server, GREEDY).await, client_at(&server, MODEST).await);
    let mut script = junk(1, 1 << 20);
    script[500_000..].fill(2);
    let half = 8 * CHUNK;
    break_off_after(&mine, &script, half).await;
    assert!(server.metric("antares_partial_upload_bytes") >= half as f64);
    // Other tenants do not see it.
    assert_eq!(query(&other, &script).await, v1::QueryUploadResponse::default());
    for (client, offset, received) in [
        (&other, half, 0),
        (&mine, half - 1, half),
        (&mine, half + 1, half),
        (&mine, CHUNK, half),
        (&mine, script.len(), half),
    ] {
        let answer = upload_from(client, &script, offset, &[]).await;
        let status = is(answer, Code::FailedPrecondition, "UPLOAD_OFFSET");
        let metadata = status.get_details_error_info().unwrap().metadata;
        assert_eq!(metadata["received_bytes"], received.to_string(), "{offset}");
    }
    let (offset, size_bytes) = (half as u64, script.len() as u64 - 1);
    let other_size = v1::BlobHeader { offset, size_bytes, ..header(&script) };
    is(mine.upload_as(other_size, &[]).await, Code::InvalidArgument, "SIZE_MISMATCH");
    let beyond = upload_from(&mine, &script, script.len() + 1, &[]).await;
    is(beyond, Code::InvalidArgument, "UPLOAD_MALFORMED");
    let answer = upload_from(&mine, &script, half, &script[half..]).await.unwrap();
    assert_eq!((answer.size_bytes, answer.already_stored), (script.len() as u64, false));
    assert!(mine.script(&script).await.unwrap() == script);
    let now = query(&mine, &script).await;
    assert_eq!((now.received_bytes, now.stored), (0, true));
    assert_eq!(server.metric("antares_uploads_resumed_total"), 1.0);
    assert_eq!(server.metric("antares_partial_uploads"), 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_does_not_stay() {
    let (_data, server) = started("");
    let client = client_at(&server, GREEDY).await;
    let (script, other) = (junk(1, 4 * CHUNK), junk(2, 4 * CHUNK));
    // The rest of another script: the hash covers all of it.
    break_off_after(&client, &script, 2 * CHUNK).await;
    let answer = upload_from(&client, &script, 2 * CHUNK, &other[2 * CHUNK..]).await;
    is(answer, Code::InvalidArgument, "DIGEST_MISMATCH");
    assert_eq!(query(&client, &script).await, v1::QueryUploadResponse::default());
    // Less than announced, which counts as an interruption; a different size; and more.
    break_off_after(&client, &script, CHUNK).await;
    break_off_after(&client, &script, 2 * CHUNK).await;
    let answer = upload_from(&client, &script, 2 * CHUNK, &script[CHUNK..]).await;
    is(answer, Code::InvalidArgument, "SIZE_MISMATCH");
    assert_eq!(query(&client, &script).await.received_bytes, 0);
    // Data that is not a script is accepted as well.
    let mut text = junk(3, CHUNK);
    text[18] = 62;
    break_off_after(&client, &text, 10).await;
    upload_from(&client, &text, 10, &text[10..]).await.unwrap();
    assert_eq!(client.script(&text).await.unwrap(), text);
    until("nothing stays", || server.metric("antares_partial_uploads") == 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_goes_on_takes_over() {
    let (_data, server) = started("");
    let client = client_at(&server, GREEDY).await;
    let script = junk(1, 4 * CHUNK);
    let first = Open::begin(&client, &script, 0).await;
    first.send(&script[..2 * CHUNK]).await;
    comes_to(&client, &script, 2 * CHUNK).await;
    // The first connection may be dead without notice.
    let second = Open::begin(&client, &script, 2 * CHUNK).await;
    second.send(&script[2 * CHUNK..3 * CHUNK]).await;
    comes_to(&client, &script, 3 * CHUNK).await;
    first.send(&script[2 * CHUNK..]).await;
    is(first.answer.await.unwrap(), Code::Aborted, "UPLOAD_TAKEN_OVER");
    second.send(&script[3 * CHUNK..]).await;
    second.end().await.unwrap();
    assert!(client.script(&script).await.unwrap() == script);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_broke_off_gives_way_and_ends() {
    let (_data, server) = started(
        "[compiler]\nscript_bytes_max = 1048576\n[tuned]\npartial_uploads_max = 6\nupload_bytes_max = 2097152\n",
    );
    let client = client_at(&server, GREEDY).await;
    let scripts: Vec<_> = (0..5).map(|number| junk(number, 8 * CHUNK)).collect();
    // Three are one tenant's share: the oldest idle one is dropped.
    for script in &scripts[..4] {
        break_off_after(&client, script, CHUNK).await;
    }
    assert_eq!(query(&client, &scripts[0]).await.received_bytes, 0);
    comes_to(&client, &scripts[3], CHUNK).await;
    assert_eq!(server.metric("antares_uploads_dropped_total{reason=\"room\"}"), 1.0);
    // Sixteen chunks are one tenant's share: idle uploads are dropped, then capacity is exhausted.
    let mut open = Vec::new();
    for script in &scripts[..2] {
        let one = Open::begin(&client, script, 0).await;
        one.send(&script[..7 * CHUNK]).await;
        comes_to(&client, script, 7 * CHUNK).await;
        open.push(one);
    }
    let third = Open::begin(&client, &scripts[2], 0).await;
    third.send(&scripts[2]).await;
    let status = is(third.answer.await.unwrap(), Code::ResourceExhausted, "UPLOAD_BYTES");
    assert!(status.get_details_retry_info().is_some());
    // The earlier part remains, and can be resumed.
    comes_to(&client, &scripts[2], 2 * CHUNK).await;
    let third = Open::begin(&client, &scripts[2], 2 * CHUNK).await;
    until("it is gone on with", || server.metric("antares_uploads_resumed_total") == 1.0);
    let fourth = Open::begin(&client, &scripts[4], 0).await;
    is(fourth.answer.await.unwrap(), Code::ResourceExhausted, "UPLOAD_BYTES");
    // Another client has capacity.
    client_at(&server, MODEST).await.upload(&scripts[4]).await.unwrap();
    drop((open, third));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_goes_on_with_ends_with_its_time_or_the_process() {
    let data = tempfile::tempdir().unwrap();
    let script = junk(1, 8 * CHUNK);
    {
        let server = Server::start(&data);
        break_off_after(&client_at(&server, GREEDY).await, &script, 4 * CHUNK).await;
    }
    let server = Server::start_with(&data, "[tuned]\nupload_keep_ms = 1\n");
    let client = client_at(&server, GREEDY).await;
    assert_eq!(query(&client, &script).await.received_bytes, 0);
    let answer = upload_from(&client, &script, 0, &script[..4 * CHUNK]).await;
    is(answer, Code::InvalidArgument, "SIZE_MISMATCH");
    until("it is dropped", || server.metric("antares_uploads_dropped_total{reason=\"expired\"}") == 1.0);
    assert_eq!(query(&client, &script).await.received_bytes, 0);
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
    let (_data, server) = started("");
    let client = client_at(&server, GREEDY).await;
    let before = server.memory_high();
    let begun = (0..16).map(async |number| {
        let script = junk(number, 16 << 20);
        let (most, rest) = script.split_at(script.len() - CHUNK);
        let open = Open::begin(&client, &script, 0).await;
        open.send(most).await;
        comes_to(&client, &script, most.len()).await;
        (open, rest.to_vec())
    });
    let open = futures_util::future::join_all(begun).await;
    let on_their_way = server.memory_high() - before;
    assert!(server.metric("antares_partial_upload_bytes") >= 16.0 * 15.0 * 1_048_576.0);
    let ends = open.into_iter().map(async |(one, rest)| {
        one.send(&rest).await;
        one.end().await.unwrap();
    });
    futures_util::future::join_all(ends).await;
    let grown = server.memory_high() - before;
    assert!(on_their_way < UPLOADS_MEMORY_MAX, "{} MiB", on_their_way >> 20);
    assert!(grown < STORED_MEMORY_MAX, "{} MiB", grown >> 20);
}

/// Maximum memory of the server's own process, whatever it receives, bytes.
const GIGABYTE_MEMORY_MAX: u64 = 256 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn a_gigabyte_is_refused_without_being_read() {
    let (_data, server, mut client) = serving("").await;
    // Once correctly declared, once under a header with a smaller size.
    for (size_bytes, expected) in [(1 << 30, "SCRIPT_TOO_LARGE"), (1000, "SIZE_MISMATCH")] {
        let header = Part::Header(v1::BlobHeader { size_bytes, ..header(b"") });
        let chunk = Bytes::from(vec![7; 64 << 10]);
        let chunks = (0..(1 << 30) / (64 << 10)).map(move |_| Part::Chunk(chunk.clone()));
        let parts = [header].into_iter().chain(chunks).map(|part| v1::UploadRequest { part: Some(part) });
        let answer = client.compiler.upload(tokio_stream::iter(parts)).await;
        is(answer.map(tonic::Response::into_inner), Code::InvalidArgument, expected);
    }
    assert!(server.memory_high() < GIGABYTE_MEMORY_MAX, "{} bytes", server.memory_high());
    assert!(server.is_ready());
}
