//! A remote compiler service as a source, over gRPC.

use std::{sync::Arc, time::Duration};

use antares_abi::{ArtifactKey, CodeTier, CompileOptions, LIBRARY_BYTES_MAX, Seen, Sha256Digest};
use antares_client::{
    Upload,
    balance::Balance,
    credentials::{Connection, Credentials},
    retry::Retry,
};
use antares_config::Config;
use antares_proto::v1::{self, get_artifact_response::Part, get_script_response};
use antares_serve::{Account, Metrics, script_problem};
use antares_trust::Trust;
use bytes::Bytes;
use tonic::{
    Request, Status, Streaming, async_trait,
    metadata::{Ascii, MetadataValue},
    service::Routes,
};

use crate::{
    grpc::{
        compiler_proxy::CompilerProxy,
        status::{is_not_compiled, no_script, source_error},
    },
    source::{
        ArtifactSource, Fallback, Fetched, FetchedLibrary, SourceError, Wanted,
        compilers::{RemoteError, client, compilers, credentials},
    },
};

/// Remote compiler services. Connects on demand, and reconnects after a loss.
#[derive(Clone, Debug)]
pub struct RemoteSource {
    compilers: Balance,
    /// Proxy for callers' calls.
    proxy: CompilerProxy,
    script_bytes_max: u64,
    call_timeout: Duration,
    trust: Option<Arc<Trust>>,
    /// They include the tenant of the request; the compiler service accepts it from a caller that may act for
    /// others.
    credentials: Credentials,
}

impl RemoteSource {
    /// The service that `config` names, with TLS if its URL says so. Call it within a runtime.
    ///
    /// # Errors
    /// The URL or the files are invalid.
    pub fn new(config: &Config, metrics: &Metrics) -> Result<Self, RemoteError> {
        let (limits, [compilers, callers]) = (&config.runner, compilers(config, metrics)?);
        let trust = config.signing.trusted.clone().map(Trust::of_list).transpose()?.map(Arc::new);
        if trust.is_none() {
            tracing::warn!("signing.trusted is empty: native code is taken from the compiler as it comes");
        }
        let credentials =
            credentials(limits.compiler_token_file.as_deref(), metrics).map_err(RemoteError::Token)?;
        Ok(Self {
            compilers,
            proxy: CompilerProxy::new(callers, credentials.clone()),
            script_bytes_max: limits.script_bytes_max,
            call_timeout: limits.call_time_max,
            trust,
            credentials,
        })
    }

    /// Adds the compiler services to `routes`.
    pub(crate) fn add_to(&self, routes: Routes) -> Routes {
        self.proxy.add_to(routes)
    }

    /// Whether proxied calls reach a compiler.
    pub(crate) fn is_open(&self) -> bool {
        self.proxy.is_open()
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.set_timeout(self.call_timeout);
        request
    }

    /// Tries the compilers in the order of `script` until one answers, or fails with an error that the others
    /// would repeat.
    async fn call_compiler<T, F>(
        &self,
        script: Sha256Digest,
        call: impl Fn(Connection) -> F,
    ) -> Result<T, SourceError>
    where
        F: Future<Output = Result<T, SourceError>>,
    {
        let mut worst = SourceError::Unavailable("there is no compiler".to_owned());
        for server in self.compilers.ranked(&script.0) {
            let answer = call(self.credentials.on(server.channel())).await;
            let is_gone = matches!(answer, Err(SourceError::Unavailable { .. }));
            if is_gone {
                server.circuit().open();
            } else {
                server.circuit().answered();
            }
            if is_last_word(&answer) {
                return answer;
            }
            // Another one may be reachable, have it, or have time. A compiler's error is worth more than a
            // lost connection.
            if let Err(error) = answer
                && (!is_gone || matches!(worst, SourceError::Unavailable { .. }))
            {
                worst = error;
            }
        }
        Err(worst)
    }

    /// The compiler's answer; none if only a stored artifact is wanted and there is none.
    async fn compile(
        &self,
        link: &Connection,
        wanted: &Wanted,
    ) -> Result<Option<v1::CompileResponse>, SourceError> {
        let options = options(wanted.options);
        let message = || v1::CompileRequest {
            script_sha256: wanted.script.to_string(),
            options: Some(options.clone()),
            least: v1::CodeTier::Baseline.into(),
            stored_only: wanted.is_stored,
        };
        let call_compiler = || async {
            match client(link.clone()).compile(self.request(message())).await {
                Ok(response) => Ok(Some(response.into_inner())),
                Err(status) if wanted.is_stored && is_not_compiled(&status) => Ok(None),
                Err(status) => Err(source_error(wanted.script, status)),
            }
        };
        let first = call_compiler().await;
        let (Err(SourceError::ScriptNotFound(_)), Some(elf)) = (&first, &wanted.elf) else { return first };
        if let Some(mistake) = script_problem(elf) {
            return Err(no_script(mistake));
        }
        self.upload(link, wanted.script, elf).await?;
        call_compiler().await
    }

    async fn upload(&self, link: &Connection, script: Sha256Digest, elf: &Bytes) -> Result<(), SourceError> {
        // Callers of a runner have deadlines: if this one breaks off, another compiler gets the request.
        let (connection, call_time_max) = (link.clone(), self.call_timeout);
        let upload = Upload { connection, call_time_max, retry: Retry::NEVER };
        let uploaded = upload.send(elf, &script.to_string()).await;
        uploaded.map(drop).map_err(|status| source_error(script, status))
    }

    async fn download(&self, link: &Connection, key: ArtifactKey) -> Result<(v1::BlobHeader, Bytes), Status> {
        let message = v1::GetArtifactRequest { artifact_key: key.to_string() };
        let stream = client(link.clone()).get_artifact(self.request(message)).await?.into_inner();
        collect(stream, LIBRARY_BYTES_MAX, |response| response.part).await
    }

    async fn script_of(&self, link: &Connection, digest: Sha256Digest) -> Result<Bytes, SourceError> {
        let message = v1::GetScriptRequest { script_sha256: digest.to_string() };
        let stream = client(link.clone()).get_script(self.request(message)).await;
        let stream = stream.map_err(|status| source_error(digest, status))?.into_inner();
        let blob = collect(stream, self.script_bytes_max, |response| {
            response.part.map(|part| match part {
                get_script_response::Part::Header(header) => Part::Header(header),
                get_script_response::Part::Chunk(chunk) => Part::Chunk(chunk),
            })
        });
        Ok(blob.await.map_err(|status| source_error(digest, status))?.1)
    }

    async fn artifact_of(&self, link: &Connection, wanted: &Wanted) -> Result<Option<Fetched>, SourceError> {
        let Some(compiled) = self.compile(link, wanted).await? else { return Ok(None) };
        let key = parse(&compiled.artifact_key)?;
        if wanted.known == Some(key) {
            return Ok(None);
        }
        let (compiled, (header, bytes)) = match self.download(link, key).await {
            Ok(blob) => (compiled, blob),
            // Evicted or found corrupt since the answer: compile again, once.
            Err(status)
                if matches!(source_error(wanted.script, status.clone()), SourceError::ScriptNotFound(_)) =>
            {
                let Some(compiled) = self.compile(link, wanted).await? else { return Ok(None) };
                let blob = self.download(link, parse(&compiled.artifact_key)?).await;
                (compiled, blob.map_err(|status| source_error(wanted.script, status))?)
            }
            Err(status) => return Err(source_error(wanted.script, status)),
        };
        let made = compiled.cache() == v1::CacheUse::Miss;
        Ok(Some(Fetched {
            key: parse(&compiled.artifact_key)?,
            tier: tier(&compiled)?,
            hints: hints(&compiled.hints_sha256)?,
            library: FetchedLibrary::Sent { bytes, sha256: parse(&header.sha256)? },
            manifest: header.manifest,
            made_ms: made.then_some(compiled.compile_ms),
        }))
    }
}

#[async_trait]
impl ArtifactSource for RemoteSource {
    async fn script(&self, digest: Sha256Digest) -> Result<Bytes, SourceError> {
        self.call_compiler(digest, |link| async move { self.script_of(&link, digest).await }).await
    }

    fn of(&self, account: &Account) -> Arc<dyn ArtifactSource> {
        let credentials = Credentials { tenant: tenant_of(account), ..self.credentials.clone() };
        Arc::new(Self { credentials, ..self.clone() })
    }

    fn trust(&self) -> Option<Arc<Trust>> {
        self.trust.clone()
    }

    async fn artifact(&self, wanted: Wanted) -> Result<Option<Fetched>, SourceError> {
        let wanted = &wanted;
        self.call_compiler(wanted.script, |link| async move { self.artifact_of(&link, wanted).await }).await
    }

    async fn learn(
        &self,
        script: Sha256Digest,
        of: CompileOptions,
        seen: Seen,
    ) -> Result<Option<Sha256Digest>, SourceError> {
        let message = v1::LearnRequest {
            script_sha256: script.to_string(),
            options: Some(options(of)),
            left: seen.left,
            targets: seen.hints.into(),
        };
        let message = &message;
        let learnt = self.call_compiler(script, |link| async move {
            let learnt = client(link).learn(self.request(message.clone())).await;
            learnt.map(tonic::Response::into_inner).map_err(|status| source_error(script, status))
        });
        hints(&learnt.await?.hints_sha256)
    }
}

/// Tenant header of compiler calls for `account`.
pub(crate) fn tenant_of(account: &Account) -> Option<MetadataValue<Ascii>> {
    account.tenant().parse().ok().filter(|_| !account.tenant().is_empty())
}

/// Whether another compiler would answer the same.
fn is_last_word<T>(answer: &Result<T, SourceError>) -> bool {
    !matches!(
        answer,
        Err(SourceError::Unavailable { .. }
            | SourceError::ScriptNotFound(_)
            | SourceError::NoArtifact { why: Fallback::WorkersBusy, .. })
    )
}

fn options(options: CompileOptions) -> v1::ScriptOptions {
    v1::ScriptOptions { vm_version: Some(options.vm_version), isa: Some(options.isa.to_string()) }
}

fn hints(text: &str) -> Result<Option<Sha256Digest>, SourceError> {
    (!text.is_empty()).then(|| parse(text)).transpose()
}

fn parse(text: &str) -> Result<Sha256Digest, SourceError> {
    text.parse().map_err(|error: antares_abi::KeyParseError| SourceError::Corrupt(error.to_string()))
}

fn tier(compiled: &v1::CompileResponse) -> Result<CodeTier, SourceError> {
    match compiled.code_tier() {
        v1::CodeTier::Baseline => Ok(CodeTier::Baseline),
        v1::CodeTier::Full => Ok(CodeTier::Full),
        v1::CodeTier::Unspecified => Err(SourceError::Corrupt("the answer names no code tier".to_owned())),
    }
}

/// All bytes of a stream, up to `most`. Does not check their digest.
async fn collect<M>(
    mut stream: Streaming<M>,
    most: u64,
    part_of: impl Fn(M) -> Option<Part>,
) -> Result<(v1::BlobHeader, Bytes), Status> {
    let malformed = |detail: &str| Status::data_loss(format!("a stream of bytes is malformed: {detail}"));
    let first = stream.message().await?.and_then(&part_of);
    let Some(Part::Header(header)) = first else { return Err(malformed("no header")) };
    if header.size_bytes > most {
        return Err(malformed("longer than what is taken here"));
    }
    let mut bytes = Vec::new();
    while let Some(message) = stream.message().await? {
        let Some(Part::Chunk(chunk)) = part_of(message) else { return Err(malformed("a second header")) };
        if (bytes.len() + chunk.len()) as u64 > header.size_bytes {
            return Err(malformed("more bytes than announced"));
        }
        bytes.extend_from_slice(&chunk);
    }
    if bytes.len() as u64 != header.size_bytes {
        return Err(malformed("fewer bytes than announced"));
    }
    Ok((header, bytes.into()))
}
