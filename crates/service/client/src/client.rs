//! The calls.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use antares_proto::v1::{self, verify_transaction_request::Transaction};
use bytes::Bytes;
use tokio_stream::{Stream, StreamExt as _};
use tonic::Status;

use crate::{
    Builder, Error, Session, VerifySession,
    blobs::{Blobs, cells_of},
    call::{Inner, Link},
    kinds::{Runs, Verifications},
    naming::{Naming, Script, digest},
    session,
    upload_script::{REFERENCE_BYTES_MIN, by_digest_first, upload_data, upload_script},
};

/// Connections to a set of servers. Cheap to clone; clones share connections.
#[derive(Clone, Debug)]
pub struct Client {
    inner: Arc<Inner>,
    deadline: Duration,
}

impl Client {
    /// A builder for a client.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn new(inner: Inner, deadline: Duration) -> Self {
        Self { inner: Arc::new(inner), deadline }
    }

    /// The same client with another deadline for each call.
    #[must_use]
    pub fn with_deadline(&self, deadline: Duration) -> Self {
        Self { inner: self.inner.clone(), deadline }
    }

    /// Runs `script` once. `request` has everything else; of its script only the options count.
    ///
    /// # Errors
    /// No server gave a verdict. A script's failure is no error.
    pub async fn execute(
        &self,
        script: Script,
        request: v1::ExecuteRequest,
    ) -> Result<v1::ExecuteResponse, Error> {
        let ask = |link: &Link, script| {
            let named = v1::ExecuteRequest { script: Some(script), ..request.clone() };
            let (mut runner, call) = (link.runner(), link.request(named));
            async move { Ok(runner.execute(call).await?.into_inner()) }
        };
        self.with_script(&script, request.script.as_ref(), ask).await
    }

    /// Runs `script` with each of the inputs. `request` has everything else; of its script only the options
    /// count.
    ///
    /// # Errors
    /// No server gave a verdict.
    pub async fn execute_batch(
        &self,
        script: Script,
        request: v1::ExecuteBatchRequest,
    ) -> Result<v1::ExecuteBatchResponse, Error> {
        let ask = |link: &Link, script| {
            let named = v1::ExecuteBatchRequest { script: Some(script), ..request.clone() };
            let (mut runner, call) = (link.runner(), link.request(named));
            async move { Ok(runner.execute_batch(call).await?.into_inner()) }
        };
        self.with_script(&script, request.script.as_ref(), ask).await
    }

    /// A call that first names `script` by its digest. `given` is the script of the caller's request.
    async fn with_script<T, F>(
        &self,
        script: &Script,
        given: Option<&v1::Script>,
        ask: impl Fn(&Link, v1::Script) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let (ask, options) = (&ask, given.and_then(|given| given.options.as_ref()));
        let attempt = |link: Link| async move {
            let named = |naming| ask(&link, script.message(naming, options.cloned()));
            let began = Instant::now();
            by_digest_first(named, async |status| upload_script(&link, script, status, began).await).await
        };
        self.inner.call(self.deadline, attempt).await
    }

    /// Runs `script` with inputs as they arrive, each with a caller-chosen number. There is one answer per
    /// input, in their order, even across server failures. [`Client::with_deadline`] limits the part of one
    /// server: a session ends only with its inputs.
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

    /// Verifies a transaction. Data of large cell deps of `fields` is named by digest, and uploaded to
    /// servers that lack it.
    ///
    /// # Errors
    /// No server gave a verdict. A rejected transaction is no error.
    pub async fn verify_transaction(
        &self,
        mut request: v1::VerifyTransactionRequest,
    ) -> Result<v1::VerifyTransactionResponse, Error> {
        let mut blobs = Blobs::default();
        if let Some(Transaction::Fields(fields)) = &mut request.transaction {
            blobs.take_from(cells_of(&mut fields.cell_deps), REFERENCE_BYTES_MIN);
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
                let (mut runner, call) = (link.runner(), link.request(request));
                async move { Ok(runner.verify_transaction(call).await?.into_inner()) }
            };
            let began = Instant::now();
            by_digest_first(ask, async |status| upload_data(&link, blobs, status, began).await).await
        };
        self.inner.call(self.deadline, attempt).await
    }

    /// Verifies transactions that share cells, as they arrive. There is one answer each, as soon as it is
    /// ready, even across server failures; transient errors are retried. Otherwise like [`Client::session`].
    #[must_use]
    pub fn verify_session(
        &self,
        shared: v1::VerifyShared,
        transactions: impl Stream<Item = v1::SharedTransaction> + Send + 'static,
    ) -> VerifySession {
        session::begin(self.inner.clone(), self.deadline, Verifications::new(shared), transactions)
    }

    /// Stores a script on one server, which others may not see. [`Script::Elf`] makes it unnecessary.
    ///
    /// # Errors
    /// No server stored it.
    pub async fn upload(&self, elf: Bytes) -> Result<v1::UploadResponse, Error> {
        let elf = &elf;
        let sha256 = &digest(elf);
        self.inner
            .call(self.deadline, |link: Link| async move { link.upload().send(elf, sha256).await })
            .await
    }

    /// Capabilities of one of the servers, and the caller's quotas there.
    ///
    /// # Errors
    /// No server answered.
    pub async fn capabilities(&self) -> Result<v1::RunnerCapabilities, Error> {
        let attempt = |link: Link| async move {
            let asked = link.request(v1::GetRunnerCapabilitiesRequest {});
            Ok(link.runner().get_capabilities(asked).await?.into_inner())
        };
        self.inner.call(self.deadline, attempt).await
    }
}
