//! Chunked, resumable uploads of scripts: a lost connection or a server's restart costs only the data in
//! flight.

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

/// Length of the chunks, bytes.
const CHUNK_BYTES: usize = 64 << 10;

/// An uploader.
#[derive(Clone, Debug)]
pub struct Upload {
    /// Destination.
    pub connection: Connection,
    /// Longest time of each call.
    pub call_time_max: Duration,
    /// Consecutive resumptions without progress.
    pub retry: Retry,
}

impl Upload {
    /// Stores `elf`, whose digest is `sha256`.
    ///
    /// # Errors
    /// The server's last error.
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
                // The server stores no partial uploads.
                Err(asked) if is_unknown_call(&asked) => offset = 0,
                Err(_) => return Err(status),
            }
            if offset > furthest {
                (furthest, tries) = (offset, 0);
            }
        }
    }

    /// Sends the data from `offset` on.
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

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use antares_proto::v1::{
        self,
        compiler_service_server::{CompilerService, CompilerServiceServer},
    };
    use tonic::{
        Code, Response, Streaming, async_trait,
        transport::{Endpoint, Server, server::TcpIncoming},
    };

    use super::*;
    use crate::credentials::Credentials;

    const RETRY: Retry = Retry {
        attempts_max: 3,
        pause_min: Duration::from_millis(1),
        pause_max: Duration::from_millis(1),
        is_spread: false,
    };

    /// Interrupts uploads, and has received that much more each time.
    #[derive(Clone, Default)]
    struct Breaking {
        code: Option<Code>,
        /// Its answers to successive queries for the received bytes.
        received: Arc<Mutex<Vec<u64>>>,
        offsets: Arc<Mutex<Vec<u64>>>,
    }

    /// The service, without the calls that an upload does not make.
    macro_rules! serve_uploads {
        ($($call:ident($request:ident) -> $answer:ty,)+) => {
            #[async_trait]
            impl CompilerService for Breaking {
                type GetArtifactStream = tokio_stream::Empty<Result<v1::GetArtifactResponse, Status>>;
                type GetScriptStream = tokio_stream::Empty<Result<v1::GetScriptResponse, Status>>;

                async fn upload(
                    &self,
                    request: Request<Streaming<UploadRequest>>,
                ) -> Result<Response<UploadResponse>, Status> {
                    let first = request.into_inner().message().await?.and_then(|first| first.part);
                    let Some(Part::Header(header)) = first else { return Err(Status::data_loss("no header")) };
                    self.offsets.lock().unwrap().push(header.offset);
                    match self.code {
                        Some(code) if header.offset < 2 => Err(Status::new(code, "broken off")),
                        _ => Ok(Response::new(UploadResponse::default())),
                    }
                }

                async fn query_upload(
                    &self,
                    _: Request<QueryUploadRequest>,
                ) -> Result<Response<v1::QueryUploadResponse>, Status> {
                    let received_bytes = self.received.lock().unwrap().pop();
                    let received_bytes = received_bytes.ok_or_else(|| Status::unimplemented("no more"))?;
                    let answer =
                        v1::QueryUploadResponse { received_bytes, size_bytes: 4, ..Default::default() };
                    Ok(Response::new(answer))
                }

                $(async fn $call(&self, _: Request<v1::$request>) -> Result<Response<$answer>, Status> {
                    Err(Status::unimplemented(""))
                })+
            }
        };
    }

    serve_uploads! {
        find_missing(FindMissingRequest) -> v1::FindMissingResponse,
        compile(CompileRequest) -> v1::CompileResponse,
        get_artifact(GetArtifactRequest) -> Self::GetArtifactStream,
        explain_artifact(ExplainArtifactRequest) -> v1::ExplainArtifactResponse,
        get_script(GetScriptRequest) -> Self::GetScriptStream,
        learn(LearnRequest) -> v1::LearnResponse,
        get_capabilities(GetCompilerCapabilitiesRequest) -> v1::CompilerCapabilities,
    }

    /// Result of an upload of four bytes to `service`, and the offsets of its attempts.
    async fn sent(service: Breaking, retry: Retry) -> (Result<(), Code>, Vec<u64>) {
        let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = incoming.local_addr().unwrap();
        let served = Server::builder().add_service(CompilerServiceServer::new(service.clone()));
        let served = tokio::spawn(served.serve_with_incoming(incoming));
        let channel = Endpoint::from_shared(format!("http://{address}")).unwrap().connect_lazy();
        let (connection, call_time_max) = (Credentials::default().on(channel), Duration::from_secs(30));
        let upload = Upload { connection, call_time_max, retry };
        let sent = upload.send(&Bytes::from_static(b"four"), "f0").await;
        served.abort();
        let offsets = service.offsets.lock().unwrap().clone();
        (sent.map(drop).map_err(|status| status.code()), offsets)
    }

    fn breaking(code: Code, received: &[u64]) -> Breaking {
        let received = received.iter().rev().copied().collect();
        Breaking { code: Some(code), received: Arc::new(Mutex::new(received)), ..Breaking::default() }
    }

    #[tokio::test]
    async fn an_upload_goes_on_where_it_broke_off() {
        assert_eq!(sent(Breaking::default(), RETRY).await, (Ok(()), vec![0]));
        assert_eq!(sent(breaking(Code::Unavailable, &[1, 2]), RETRY).await, (Ok(()), vec![0, 1, 2]));
        // Attempts without progress are limited; progress resets the count.
        let stuck = sent(breaking(Code::Unavailable, &[0, 1, 1, 1, 1]), RETRY).await;
        assert_eq!(stuck, (Err(Code::Unavailable), vec![0, 0, 1, 1, 1]));
        // The server stores no partial uploads.
        assert_eq!(sent(breaking(Code::Unknown, &[1]), RETRY).await, (Err(Code::Unknown), vec![0, 1, 0, 0]));
    }

    #[tokio::test]
    async fn what_is_refused_or_not_to_be_tried_again_is_not() {
        let refused = sent(breaking(Code::PermissionDenied, &[1]), RETRY).await;
        assert_eq!(refused, (Err(Code::PermissionDenied), vec![0]));
        let once = sent(breaking(Code::Unavailable, &[1]), Retry::NEVER).await;
        assert_eq!(once, (Err(Code::Unavailable), vec![0]));
    }
}
