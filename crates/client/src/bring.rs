//! Brings a server what it has not got.

use std::time::Instant;

use antares_proto::v1::{
    self, compiler_service_client::CompilerServiceClient, runner_service_client::RunnerServiceClient,
};
use bytes::Bytes;
use tonic::{Response, Status, transport::Channel};

use crate::{
    call::Link,
    naming::{Naming, Script, digest},
    status::{reason, takes_no_uploads},
};

/// Longest answer, bytes.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Length of the pieces of an upload, bytes.
const CHUNK_BYTES: usize = 64 << 10;

/// Scripts of which a server's connection remembers that they were brought.
const BROUGHT_MAX: usize = 1024;

pub(crate) fn runner(channel: &Channel) -> RunnerServiceClient<Channel> {
    RunnerServiceClient::new(channel.clone()).max_decoding_message_size(ANSWER_BYTES_MAX)
}

/// How to name `script` from now on, if it was missing there for a call that `began` then and can be brought;
/// the error is that of the upload.
pub(crate) async fn bring(
    link: &Link,
    script: &Script,
    status: &Status,
    began: Instant,
) -> Option<Result<Naming, Status>> {
    let Script::Elf(elf) = script else { return None };
    match reason(status)?.as_str() {
        // A runner without its compiler can still interpret what a call brings along.
        "SOURCE_UNAVAILABLE" => Some(Ok(Naming::Inline)),
        "SCRIPT_NOT_FOUND" => Some(bring_once(link, elf, began).await),
        _ => None,
    }
}

/// Uploads `elf`, if no other call has done so since this one began: a server takes few uploads at a time.
pub(crate) async fn bring_once(link: &Link, elf: &Bytes, began: Instant) -> Result<Naming, Status> {
    let digest = digest(elf);
    let mut brought = link.server.brought.lock().await;
    if let Some((_, naming)) = brought.get(&digest).filter(|(when, _)| *when > began) {
        return Ok(*naming);
    }
    let naming = match upload(link, elf).await {
        Ok(_) => Naming::Digest,
        // A runner by itself takes no uploads, or not from everybody; it passes on what a call brings along.
        Err(status) if takes_no_uploads(&status) => Naming::Inline,
        // What is no RISC-V ELF is not kept; what the VM says to it is the answer.
        Err(status) if reason(&status).as_deref() == Some("SCRIPT_INVALID") => Naming::Inline,
        Err(status) => return Err(status),
    };
    if brought.len() >= BROUGHT_MAX {
        brought.clear();
    }
    brought.insert(digest, (Instant::now(), naming));
    Ok(naming)
}

pub(crate) async fn upload(link: &Link, elf: &Bytes) -> Result<Response<v1::UploadResponse>, Status> {
    use v1::upload_request::Part;
    let header = v1::BlobHeader { sha256: digest(elf), size_bytes: elf.len() as u64, ..Default::default() };
    let elf = elf.clone();
    let chunk = move |start: usize| elf.slice(start..elf.len().min(start + CHUNK_BYTES));
    let length = usize::try_from(header.size_bytes).unwrap_or(usize::MAX);
    let chunks = (0..length).step_by(CHUNK_BYTES).map(move |start| Part::Chunk(chunk(start)));
    let parts = std::iter::once(Part::Header(header)).chain(chunks);
    let parts = parts.map(|part| v1::UploadRequest { part: Some(part) });
    CompilerServiceClient::new(link.server.channel()).upload(link.request(tokio_stream::iter(parts))).await
}
