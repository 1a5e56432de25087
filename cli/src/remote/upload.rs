//! Uploads, which go on where they broke off: a lost connection or a server that restarts costs what was on
//! its way.

use std::time::Duration;

use antares_abi::Sha256Digest;
use antares_proto::v1::{
    self, BlobHeader, UploadRequest, compiler_service_client::CompilerServiceClient, upload_request::Part,
};
use bytes::Bytes;
use tonic::Status;

use super::{Link, inventory::call};
use crate::{limits::UPLOAD_CHUNK_BYTES, status};

/// Tries in a row that bring the server nothing.
const TRIES_MAX: u32 = 5;

/// Pause before the first of them; each next one is twice as long.
const PAUSE: Duration = Duration::from_millis(100);

/// Uploads the script in pieces.
pub(super) async fn upload(channel: Link, elf: &[u8]) -> Result<v1::UploadResponse, Status> {
    let (elf, script) = (Bytes::copy_from_slice(elf), Sha256Digest::of(elf).to_string());
    let (mut offset, mut furthest, mut tries) = (0, 0, 0);
    loop {
        let status = match send(channel.clone(), &elf, &script, offset).await {
            Ok(answer) => return Ok(answer),
            Err(status) if !status::is_broken_off(&status) || tries == TRIES_MAX => return Err(status),
            Err(status) => status,
        };
        tokio::time::sleep(PAUSE * 2_u32.pow(tries)).await;
        tries += 1;
        let asked = call(v1::QueryUploadRequest { script_sha256: script.clone() });
        match CompilerServiceClient::new(channel.clone()).query_upload(asked).await {
            Ok(answer) => {
                let answer = answer.into_inner();
                let fits = answer.size_bytes == elf.len() as u64;
                offset = if fits { usize::try_from(answer.received_bytes).unwrap_or(0) } else { 0 };
            }
            Err(asked) if status::is_broken_off(&asked) => {}
            // A server that keeps nothing.
            Err(asked) if status::is_unknown_call(&asked) => offset = 0,
            Err(_) => return Err(status),
        }
        if offset > furthest {
            (furthest, tries) = (offset, 0);
        }
    }
}

/// Sends what lies behind `offset`.
async fn send(channel: Link, elf: &Bytes, script: &str, offset: usize) -> Result<v1::UploadResponse, Status> {
    let (elf, size) = (elf.clone(), elf.len());
    let header = BlobHeader {
        sha256: script.to_owned(),
        size_bytes: size as u64,
        offset: offset as u64,
        ..Default::default()
    };
    let chunks = (offset..size)
        .step_by(UPLOAD_CHUNK_BYTES)
        .map(move |start| Part::Chunk(elf.slice(start..size.min(start + UPLOAD_CHUNK_BYTES))));
    let parts =
        std::iter::once(Part::Header(header)).chain(chunks).map(|part| UploadRequest { part: Some(part) });
    let asked = call(tokio_stream::iter(parts));
    Ok(CompilerServiceClient::new(channel).upload(asked).await?.into_inner())
}
