//! The calls.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use antares_proto::v1::{
    self, compiler_service_client::CompilerServiceClient, runner_service_client::RunnerServiceClient,
    verify_transaction_request::Transaction,
};
use bytes::Bytes;
use http::HeaderValue;
use sha2::{Digest, Sha256};
use tokio_stream::{Stream, StreamExt as _};
use tonic::{
    Response, Status,
    metadata::{MetadataMap, MetadataValue},
    transport::Channel,
};

use crate::{
    Builder, Error, Session, VerifySession,
    blobs::Blobs,
    call::Link,
    kinds::{Runs, Verifications},
    retry::Budget,
    servers::Servers,
    session,
    status::{reason, takes_no_uploads},
    token::Token,
};

/// Longest answer, bytes.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Length of the pieces of an upload, bytes.
const CHUNK_BYTES: usize = 64 << 10;

/// Scripts of which a server's connection remembers that they were brought.
const BROUGHT_MAX: usize = 1024;

/// What runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Script {
    /// An ELF. It is named by digest, and sent where a server has not got it.
    Elf(Bytes),
    /// Digest of one that was uploaded, in hex.
    Stored(String),
}

impl Script {
    pub(crate) fn message(&self, naming: Naming, options: Option<v1::ScriptOptions>) -> v1::Script {
        let source = match (self, naming) {
            (Self::Elf(elf), Naming::Inline) => v1::script::Source::Elf(elf.clone()),
            (Self::Elf(elf), Naming::Digest) => v1::script::Source::Sha256(digest(elf)),
            (Self::Stored(digest), _) => v1::script::Source::Sha256(digest.clone()),
        };
        v1::Script { source: Some(source), options }
    }
}

/// How an ELF is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Naming {
    Digest,
    Inline,
}

pub(crate) fn digest(elf: &[u8]) -> String {
    hex::encode(Sha256::digest(elf))
}

/// What all clones of a client share.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) servers: Servers,
    pub(crate) budget: Budget,
    token: Token,
    tenant: Option<HeaderValue>,
}

impl Inner {
    pub(crate) fn new(servers: Servers, token: Token, tenant: Option<HeaderValue>) -> Self {
        Self { servers, token, tenant, budget: Budget::default() }
    }

    /// Puts token and tenant beside a message.
    pub(crate) fn sign(&self, metadata: &mut MetadataMap) {
        if let Some(token) = self.token.now() {
            metadata.insert("authorization", token);
        }
        let tenant = self.tenant.as_ref().and_then(|name| MetadataValue::try_from(name.as_bytes()).ok());
        if let Some(tenant) = tenant {
            metadata.insert("antares-tenant", tenant);
        }
    }
}

/// Connections to some servers. Cheap to clone; clones share connections.
#[derive(Clone, Debug)]
pub struct Client {
    inner: Arc<Inner>,
    deadline: Duration,
}

impl Client {
    /// A client to be made.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn new(inner: Inner, deadline: Duration) -> Self {
        Self { inner: Arc::new(inner), deadline }
    }

    #[cfg(test)]
    pub(crate) fn into_servers(self) -> Servers {
        Arc::into_inner(self.inner).unwrap().servers
    }

    /// The same client with another time for each call.
    #[must_use]
    pub fn with_deadline(&self, deadline: Duration) -> Self {
        Self { inner: self.inner.clone(), deadline }
    }

    /// Runs `script` once. `request` has everything else; of its script only the options count.
    ///
    /// # Errors
    /// No server gave a verdict. How a script ends is no error.
    pub async fn execute(
        &self,
        script: Script,
        request: v1::ExecuteRequest,
    ) -> Result<v1::ExecuteResponse, Error> {
        let (script, request) = (&script, &request);
        let options = &request.script.as_ref().and_then(|script| script.options.clone());
        let attempt = |link: Link| async move {
            let named = |naming| v1::ExecuteRequest {
                script: Some(script.message(naming, options.clone())),
                ..request.clone()
            };
            let ask = |naming| {
                let (mut runner, call) = (runner(&link.server.channel), link.request(named(naming)));
                async move { runner.execute(call).await }
            };
            with_script(&link, script, ask).await
        };
        self.inner.call(self.deadline, attempt).await
    }

    /// Runs `script` with each of the inputs. `request` has everything else; of its script only the options count.
    ///
    /// # Errors
    /// No server gave a verdict.
    pub async fn execute_batch(
        &self,
        script: Script,
        request: v1::ExecuteBatchRequest,
    ) -> Result<v1::ExecuteBatchResponse, Error> {
        let (script, request) = (&script, &request);
        let options = &request.script.as_ref().and_then(|script| script.options.clone());
        let attempt = |link: Link| async move {
            let named = |naming| v1::ExecuteBatchRequest {
                script: Some(script.message(naming, options.clone())),
                ..request.clone()
            };
            let ask = |naming| {
                let (mut runner, call) = (runner(&link.server.channel), link.request(named(naming)));
                async move { runner.execute_batch(call).await }
            };
            with_script(&link, script, ask).await
        };
        self.inner.call(self.deadline, attempt).await
    }

    /// Runs `script` with inputs as they come, each under a number of the caller's. Answers come in the order of the
    /// inputs, one for each, whatever happens to servers in the meantime. [`Client::with_deadline`] is for one
    /// server's part of it: a session has no end but that of its inputs.
    #[must_use]
    pub fn session(
        &self,
        script: Script,
        start: v1::SessionStart,
        inputs: impl Stream<Item = (u64, v1::Input)> + Send + 'static,
    ) -> Session {
        let inputs = inputs.map(|(id, input)| v1::SessionInput { id, input: Some(input) });
        let runs = Runs { script, start, naming: Naming::Digest };
        session::begin(self.inner.clone(), self.deadline, runs, inputs)
    }

    /// Verifies a transaction. Data of large cell deps of `fields` is named by digest, and sent where a server has not got it.
    ///
    /// # Errors
    /// No server gave a verdict. That a transaction is not accepted is no error.
    pub async fn verify_transaction(
        &self,
        mut request: v1::VerifyTransactionRequest,
    ) -> Result<v1::VerifyTransactionResponse, Error> {
        let mut blobs = Blobs::default();
        if let Some(Transaction::Fields(fields)) = &mut request.transaction {
            blobs.take_from(&mut fields.cell_deps);
        }
        let (request, blobs) = (&request, &blobs);
        let attempt = |link: Link| async move {
            let ask = |naming| {
                let mut request = request.clone();
                if let (Naming::Inline, Some(Transaction::Fields(fields))) =
                    (naming, &mut request.transaction)
                {
                    blobs.put_into(&mut fields.cell_deps);
                }
                let (mut runner, call) = (runner(&link.server.channel), link.request(request));
                async move { runner.verify_transaction(call).await }
            };
            let began = Instant::now();
            match ask(Naming::Digest).await {
                Err(status) => match blobs.bring(&link, &status, began).await {
                    Some(naming) => ask(naming?).await,
                    None => Err(status),
                },
                answer => answer,
            }
        };
        self.inner.call(self.deadline, attempt).await
    }

    /// Verifies transactions that share cells, as they come. Answers come as they are there, one for each, whatever happens to
    /// servers in the meantime; those with an error that may pass are asked for again. For the rest as [`Client::session`].
    #[must_use]
    pub fn verify_session(
        &self,
        shared: v1::VerifyShared,
        transactions: impl Stream<Item = v1::SharedTransaction> + Send + 'static,
    ) -> VerifySession {
        session::begin(self.inner.clone(), self.deadline, Verifications::new(shared), transactions)
    }

    /// Stores a script on one server, which others may not see. [`Script::Elf`] makes it needless.
    ///
    /// # Errors
    /// No server took it.
    pub async fn upload(&self, elf: Bytes) -> Result<v1::UploadResponse, Error> {
        let elf = &elf;
        self.inner.call(self.deadline, |link: Link| async move { upload(&link, elf).await }).await
    }

    /// What one of the servers can do, and what the caller may use up there.
    ///
    /// # Errors
    /// No server answered.
    pub async fn capabilities(&self) -> Result<v1::RunnerCapabilities, Error> {
        let attempt = |link: Link| async move {
            runner(&link.server.channel)
                .get_capabilities(link.request(v1::GetRunnerCapabilitiesRequest {}))
                .await
        };
        self.inner.call(self.deadline, attempt).await
    }
}

pub(crate) fn runner(channel: &Channel) -> RunnerServiceClient<Channel> {
    RunnerServiceClient::new(channel.clone()).max_decoding_message_size(ANSWER_BYTES_MAX)
}

/// Asks by digest first, and brings the script along, one way or the other, where the server has not got it.
async fn with_script<T, F>(
    link: &Link,
    script: &Script,
    ask: impl Fn(Naming) -> F,
) -> Result<Response<T>, Status>
where
    F: Future<Output = Result<Response<T>, Status>>,
{
    let began = Instant::now();
    match ask(Naming::Digest).await {
        Err(status) => match bring(link, script, &status, began).await {
            Some(naming) => ask(naming?).await,
            None => Err(status),
        },
        answer => answer,
    }
}

/// How to name `script` from now on, if it was missing there for a call that `began` then and can be brought; the error is that
/// of the upload.
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

async fn upload(link: &Link, elf: &Bytes) -> Result<Response<v1::UploadResponse>, Status> {
    use v1::upload_request::Part;
    let header = v1::BlobHeader { sha256: digest(elf), size_bytes: elf.len() as u64, ..Default::default() };
    let elf = elf.clone();
    let chunk = move |start: usize| elf.slice(start..elf.len().min(start + CHUNK_BYTES));
    let length = usize::try_from(header.size_bytes).unwrap_or(usize::MAX);
    let chunks = (0..length).step_by(CHUNK_BYTES).map(move |start| Part::Chunk(chunk(start)));
    let parts = std::iter::once(Part::Header(header)).chain(chunks);
    let parts = parts.map(|part| v1::UploadRequest { part: Some(part) });
    CompilerServiceClient::new(link.server.channel.clone())
        .upload(link.request(tokio_stream::iter(parts)))
        .await
}
