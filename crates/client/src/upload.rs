//! Uploads of scripts in pieces, which go on where they broke off: a lost connection or a server that
//! restarts costs what was on its way.

use std::time::Duration;

use antares_proto::v1::{
    BlobHeader, QueryUploadRequest, UploadRequest, UploadResponse,
    compiler_service_client::CompilerServiceClient, upload_request::Part,
};
use bytes::Bytes;
use tonic::{Request, Status};

use crate::{
    credentials::Connection,
    retry::Retry,
    status::{is_broken_off, is_unknown_call},
};

/// Length of the pieces, bytes.
const CHUNK_BYTES: usize = 64 << 10;

/// A way to upload.
#[derive(Clone, Debug)]
pub struct Upload {
    /// Where to.
    pub connection: Connection,
    /// Longest time of each call.
    pub call_time_max: Duration,
    /// How often it goes on in a row, where that brings the server nothing.
    pub retry: Retry,
}

impl Upload {
    /// Stores `elf`, whose digest is `sha256`.
    ///
    /// # Errors
    /// What the server said last.
    pub async fn send(&self, elf: &Bytes, sha256: &str) -> Result<UploadResponse, Status> {
        let (mut offset, mut furthest, mut tries) = (0, 0, 0);
        loop {
            let status = match self.send_from(offset, elf, sha256).await {
                Err(status) if is_broken_off(&status) && tries + 1 < self.retry.attempts_max => status,
                answer => return answer,
            };
            tokio::time::sleep(self.retry.pause(tries)).await;
            tries += 1;
            let asked = self.request(QueryUploadRequest { script_sha256: sha256.to_owned() });
            match self.client().query_upload(asked).await {
                Ok(answer) => {
                    let answer = answer.into_inner();
                    let fits = answer.size_bytes == elf.len() as u64;
                    offset = if fits { usize::try_from(answer.received_bytes).unwrap_or(0) } else { 0 };
                }
                Err(asked) if is_broken_off(&asked) => {}
                // A server that keeps nothing.
                Err(asked) if is_unknown_call(&asked) => offset = 0,
                Err(_) => return Err(status),
            }
            if offset > furthest {
                (furthest, tries) = (offset, 0);
            }
        }
    }

    /// Sends what lies behind `offset`.
    async fn send_from(&self, offset: usize, elf: &Bytes, sha256: &str) -> Result<UploadResponse, Status> {
        let (elf, size) = (elf.clone(), elf.len());
        let header = BlobHeader {
            sha256: sha256.to_owned(),
            size_bytes: size as u64,
            offset: offset as u64,
            ..Default::default()
        };
        let chunks = (offset..size)
            .step_by(CHUNK_BYTES)
            .map(move |start| Part::Chunk(elf.slice(start..size.min(start.saturating_add(CHUNK_BYTES)))));
        let parts = std::iter::once(Part::Header(header)).chain(chunks);
        let parts = parts.map(|part| UploadRequest { part: Some(part) });
        let answer = self.client().upload(self.request(tokio_stream::iter(parts))).await;
        answer.map(tonic::Response::into_inner)
    }

    pub(crate) fn client(&self) -> CompilerServiceClient<Connection> {
        CompilerServiceClient::new(self.connection.clone())
    }

    pub(crate) fn request<M>(&self, message: M) -> Request<M> {
        let mut request = Request::new(message);
        request.set_timeout(self.call_time_max);
        request
    }
}
