//! A Rust client of both services.

use antares_abi::Sha256Digest;
use antares_chain::{json, locked_by};
use antares_proto::v1::{
    self, compiler_service_client::CompilerServiceClient, runner_service_client::RunnerServiceClient,
    upload_request::Part,
};
use bytes::Bytes;
use ckb_types::core::ScriptHashType;
use tempfile::TempDir;
use tonic::{
    Request, Status,
    transport::{self, Channel},
};
use tonic_types::StatusExt as _;

use crate::server::Server;

/// Length of uploaded chunks.
const CHUNK_BYTES: usize = 64 << 10;

/// Connections to both services.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) compiler: CompilerServiceClient<Channel>,
    pub(crate) runner: RunnerServiceClient<Channel>,
}

impl Client {
    pub(crate) async fn connect(server: &Server) -> Self {
        Self::connect_to(&server.address).await.unwrap()
    }

    pub(crate) async fn connect_to(address: &str) -> Result<Self, transport::Error> {
        let channel = Channel::from_shared(format!("http://{address}")).unwrap().connect().await?;
        Ok(Self {
            compiler: CompilerServiceClient::new(channel.clone()),
            runner: RunnerServiceClient::new(channel),
        })
    }

    /// Uploads `bytes` correctly.
    pub(crate) async fn upload(&mut self, bytes: &[u8]) -> Result<v1::UploadResponse, Status> {
        let (sha256, size_bytes) = (Sha256Digest::of(bytes).to_string(), bytes.len() as u64);
        let header = v1::BlobHeader { sha256, size_bytes, ..Default::default() };
        let mut parts = vec![Part::Header(header)];
        parts.extend(bytes.chunks(CHUNK_BYTES).map(|chunk| Part::Chunk(Bytes::copy_from_slice(chunk))));
        let parts = parts.into_iter().map(|part| v1::UploadRequest { part: Some(part) });
        Ok(self.compiler.upload(tokio_stream::iter(parts)).await?.into_inner())
    }

    pub(crate) async fn execute(
        &mut self,
        request: v1::ExecuteRequest,
    ) -> Result<v1::ExecuteResponse, Status> {
        Ok(self.runner.execute(request).await?.into_inner())
    }

    pub(crate) async fn verify(
        &self,
        request: v1::VerifyTransactionRequest,
    ) -> Result<v1::VerifyTransactionResponse, Status> {
        Ok(self.runner.clone().verify_transaction(request).await?.into_inner())
    }
}

/// A server with these configuration sections and its own data, and a client of it.
pub(crate) async fn serving(sections: &str) -> (TempDir, Server, Client) {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start_with(&data, sections);
    let client = Client::connect(&server).await;
    (data, server, client)
}

/// Runs an ELF sent inline.
pub(crate) fn inline(elf: &[u8], args: &[&str], tier: v1::Tier) -> v1::ExecuteRequest {
    request(v1::script::Source::Elf(Bytes::copy_from_slice(elf)), args, tier)
}

/// Runs a stored script.
pub(crate) fn stored(elf: &[u8], args: &[&str], tier: v1::Tier) -> v1::ExecuteRequest {
    request(v1::script::Source::Sha256(Sha256Digest::of(elf).to_string()), args, tier)
}

fn request(source: v1::script::Source, args: &[&str], tier: v1::Tier) -> v1::ExecuteRequest {
    v1::ExecuteRequest {
        script: Some(v1::Script { source: Some(source), options: None }),
        args: args.iter().map(|arg| Bytes::copy_from_slice(arg.as_bytes())).collect(),
        limits: None,
        tier: tier.into(),
        request_id: "scenario".to_owned(),
        sample_salt: None,
        text_args: Vec::new(),
        recheck: false,
        diagnosis: false,
    }
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

pub(crate) fn of_tenant<T>(tenant: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("antares-tenant", tenant.parse().unwrap());
    request
}

pub(crate) fn reason(status: &Status) -> String {
    status.get_error_details().error_info().map_or_else(String::new, |info| info.reason.clone())
}

#[track_caller]
pub(crate) fn exit_code(response: &v1::ExecuteResponse) -> Option<i32> {
    response.verdict.as_ref().and_then(|verdict| verdict.exit_code)
}
