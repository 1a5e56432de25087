//! A Rust client of all services.

use std::time::{Duration, Instant};

use antares_abi::Sha256Digest;
use antares_chain::{json, locked_by};
use antares_proto::v1::{
    self, admin_service_client::AdminServiceClient, compiler_service_client::CompilerServiceClient,
    get_script_response, operation_service_client::OperationServiceClient,
    profile_service_client::ProfileServiceClient, runner_service_client::RunnerServiceClient,
    store_service_client::StoreServiceClient, upload_request::Part,
};
use antares_tests::guests;
use bytes::Bytes;
use ckb_types::core::ScriptHashType;
use tempfile::TempDir;
use tonic::{
    Code, IntoRequest, Request, Status,
    metadata::{Ascii, MetadataValue},
    service::{Interceptor, interceptor::InterceptedService},
    transport::{self, Channel},
};
use tonic_types::StatusExt as _;

use crate::{
    identity::plain,
    server::{Server, started},
};

/// Length of uploaded chunks.
const CHUNK_BYTES: usize = 64 << 10;

/// Adds a token to each call, if there is one.
#[derive(Clone, Default)]
pub(crate) struct Token(Option<MetadataValue<Ascii>>);

impl Interceptor for Token {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            request.metadata_mut().insert("authorization", token.clone());
        }
        Ok(request)
    }
}

type Wire = InterceptedService<Channel, Token>;

/// One caller's connection to all services.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) compiler: CompilerServiceClient<Wire>,
    pub(crate) runner: RunnerServiceClient<Wire>,
    pub(crate) profiles: ProfileServiceClient<Wire>,
    pub(crate) operations: OperationServiceClient<Wire>,
    pub(crate) store: StoreServiceClient<Wire>,
    pub(crate) admin: AdminServiceClient<Wire>,
}

impl Client {
    pub(crate) async fn connect(server: &Server) -> Self {
        Self::connect_to(&server.address).await.unwrap()
    }

    pub(crate) async fn connect_to(address: &str) -> Result<Self, transport::Error> {
        let channel = Channel::from_shared(format!("http://{address}")).unwrap().connect().await?;
        Ok(Self::over(channel, Token::default()))
    }

    /// A client with a token.
    pub(crate) async fn with_token(server: &Server, token: &str) -> Self {
        Self::over(plain(server).await, Token(Some(format!("Bearer {token}").parse().unwrap())))
    }

    pub(crate) fn over(channel: Channel, token: Token) -> Self {
        let wire = InterceptedService::new(channel, token);
        Self {
            compiler: CompilerServiceClient::new(wire.clone()),
            runner: RunnerServiceClient::new(wire.clone()),
            profiles: ProfileServiceClient::new(wire.clone()),
            operations: OperationServiceClient::new(wire.clone()),
            store: StoreServiceClient::new(wire.clone()),
            admin: AdminServiceClient::new(wire),
        }
    }

    /// Uploads `bytes` correctly.
    pub(crate) async fn upload(&self, bytes: &[u8]) -> Result<v1::UploadResponse, Status> {
        self.upload_as(header(bytes), bytes).await
    }

    /// Uploads `bytes` under any header.
    pub(crate) async fn upload_as(
        &self,
        header: v1::BlobHeader,
        bytes: &[u8],
    ) -> Result<v1::UploadResponse, Status> {
        let chunks = bytes.chunks(CHUNK_BYTES).map(|chunk| Part::Chunk(Bytes::copy_from_slice(chunk)));
        let parts: Vec<_> = std::iter::once(Part::Header(header)).chain(chunks).collect();
        let parts = parts.into_iter().map(|part| v1::UploadRequest { part: Some(part) });
        Ok(self.compiler.clone().upload(tokio_stream::iter(parts)).await?.into_inner())
    }

    /// The stored bytes of `elf`.
    pub(crate) async fn script(&self, elf: &[u8]) -> Result<Vec<u8>, Status> {
        let request = v1::GetScriptRequest { script_sha256: digest(elf) };
        let mut parts = self.compiler.clone().get_script(request).await?.into_inner();
        let mut bytes = Vec::new();
        while let Some(message) = parts.message().await? {
            if let Some(get_script_response::Part::Chunk(chunk)) = message.part {
                bytes.extend_from_slice(&chunk);
            }
        }
        Ok(bytes)
    }

    pub(crate) async fn compile(&self, elf: &[u8]) -> Result<v1::CompileResponse, Status> {
        Ok(self.compiler.clone().compile(compile(elf)).await?.into_inner())
    }

    pub(crate) async fn is_missing(&self, elf: &[u8]) -> bool {
        let request = v1::FindMissingRequest { script_sha256: vec![digest(elf)] };
        !self.compiler.clone().find_missing(request).await.unwrap().into_inner().missing_sha256.is_empty()
    }

    pub(crate) async fn learn(
        &self,
        request: impl IntoRequest<v1::LearnRequest>,
    ) -> Result<v1::LearnResponse, Status> {
        Ok(self.compiler.clone().learn(request).await?.into_inner())
    }

    pub(crate) async fn execute(
        &self,
        request: impl IntoRequest<v1::ExecuteRequest>,
    ) -> Result<v1::ExecuteResponse, Status> {
        Ok(self.runner.clone().execute(request).await?.into_inner())
    }

    pub(crate) async fn verify(
        &self,
        request: impl IntoRequest<v1::VerifyTransactionRequest>,
    ) -> Result<v1::VerifyTransactionResponse, Status> {
        Ok(self.runner.clone().verify_transaction(request).await?.into_inner())
    }
}

pub(crate) fn digest(bytes: &[u8]) -> String {
    Sha256Digest::of(bytes).to_string()
}

pub(crate) fn header(bytes: &[u8]) -> v1::BlobHeader {
    v1::BlobHeader { sha256: digest(bytes), size_bytes: bytes.len() as u64, ..Default::default() }
}

pub(crate) fn compile(elf: &[u8]) -> v1::CompileRequest {
    v1::CompileRequest { script_sha256: digest(elf), ..Default::default() }
}

/// A server with these configuration sections and its own data, and a client of it.
pub(crate) async fn serving(sections: &str) -> (TempDir, Server, Client) {
    let (data, server) = started(sections);
    let client = Client::connect(&server).await;
    (data, server, client)
}

/// Runs an ELF sent inline.
pub(crate) fn inline(elf: &[u8], args: &[&str], tier: v1::Tier) -> v1::ExecuteRequest {
    request(v1::script::Source::Elf(Bytes::copy_from_slice(elf)), args, tier)
}

/// Runs a stored script.
pub(crate) fn stored(elf: &[u8], args: &[&str], tier: v1::Tier) -> v1::ExecuteRequest {
    request(v1::script::Source::Sha256(digest(elf)), args, tier)
}

fn request(source: v1::script::Source, args: &[&str], tier: v1::Tier) -> v1::ExecuteRequest {
    v1::ExecuteRequest {
        script: Some(v1::Script { source: Some(source), options: None }),
        args: args.iter().map(|arg| Bytes::copy_from_slice(arg.as_bytes())).collect(),
        tier: tier.into(),
        request_id: "scenario".to_owned(),
        ..Default::default()
    }
}

/// A program in assembly.
pub(crate) fn assembled(text: &str) -> Vec<u8> {
    guests::assemble(&format!(".globl _start\n_start:\n{text}")).unwrap()
}

/// Verifies a transaction in ckb-debugger's JSON.
pub(crate) fn verification(json: impl Into<Vec<u8>>, tier: v1::Tier) -> v1::VerifyTransactionRequest {
    let transaction = Some(v1::verify_transaction_request::Transaction::MockJson(json.into().into()));
    v1::VerifyTransactionRequest { transaction, tier: tier.into(), ..Default::default() }
}

/// The same JSON for a transaction whose lock is the first of `deps`.
pub(crate) fn locked(deps: &[Bytes], hash_type: ScriptHashType) -> Vec<u8> {
    json(locked_by(deps, hash_type))
}

/// Times of `count` consecutive runs of a stored script.
pub(crate) async fn times(client: &Client, elf: &[u8], count: usize) -> Vec<Duration> {
    let mut times = Vec::new();
    for _ in 0..count {
        let started = Instant::now();
        let ran = client.execute(stored(elf, &["3"], v1::Tier::Auto)).await.unwrap();
        assert_eq!(exit_code(&ran), Some(3));
        times.push(started.elapsed());
    }
    times
}

pub(crate) fn of_tenant<T>(tenant: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("antares-tenant", tenant.parse().unwrap());
    request
}

pub(crate) fn reason(status: &Status) -> String {
    status.get_error_details().error_info().map_or_else(String::new, |info| info.reason.clone())
}

/// Asserts the code and the reason of a refusal.
#[track_caller]
pub(crate) fn is(status: &Status, code: Code, expected: &str) {
    assert_eq!((status.code(), reason(status).as_str()), (code, expected), "{status:?}");
}

#[track_caller]
pub(crate) fn exit_code(response: &v1::ExecuteResponse) -> Option<i32> {
    response.verdict.as_ref().and_then(|verdict| verdict.exit_code)
}
