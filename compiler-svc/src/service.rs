//! The calls of `CompilerService`.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
    time::Duration,
};

use antares_abi::{ArtifactKey, Sha256Digest};
use antares_cache::Owner;
use antares_proto::v1::{self, compiler_service_server, get_artifact_response::Part, get_script_response};
use antares_serve::{CallContext, Fault, HeldBytes, RequestBytes, TENANT};
use antares_trust::{Facts, Manifest, Refusal};
use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming, async_trait};

use crate::{
    blocking::blocking,
    compiler::Compiler,
    convert::{capabilities, compile_order, compiled, digest, hints, options, seen},
    learn::Teacher,
    limits::{CHUNK_BYTES_MAX, DIGESTS_MAX, DOWNLOADS_MAX},
    upload,
};

/// Wait of a caller when all uploads or downloads are taken.
const RETRY_TRANSFERS: Duration = Duration::from_secs(1);

/// Chunks queued for a reader.
const CHUNKS_AHEAD: usize = 2;

/// The gRPC service of a [`Compiler`].
#[derive(Clone)]
pub(crate) struct Service {
    compiler: Compiler,
    message_bytes_max: u64,
    uploads: Arc<Semaphore>,
    downloads: Arc<Semaphore>,
}

impl Service {
    pub(crate) fn new(compiler: Compiler, message_bytes_max: u64) -> Self {
        let slots = |number: usize| Arc::new(Semaphore::new(number.min(Semaphore::MAX_PERMITS)));
        let limits = compiler.limits();
        Self {
            uploads: slots(limits.uploads_max),
            downloads: slots(DOWNLOADS_MAX),
            compiler,
            message_bytes_max,
        }
    }

    /// The compiler for the caller of `request`.
    fn compiler_for<T>(&self, request: &Request<T>) -> Compiler {
        self.compiler.of(CallContext::of(request).account())
    }

    /// Sends `bytes` as a header and chunks, one message at a time as the reader takes them.
    fn send<M: Send + 'static>(
        &self,
        held: (OwnedSemaphorePermit, HeldBytes),
        bytes: Bytes,
        (sha256, manifest): (Sha256Digest, Bytes),
        message: impl Fn(Part) -> M + Send + 'static,
    ) -> ReceiverStream<Result<M, Status>> {
        let (sender, receiver) = mpsc::channel(CHUNKS_AHEAD);
        let idle = self.compiler.limits().idle_max;
        let chunk_bytes = usize::try_from(CHUNK_BYTES_MAX).unwrap_or(usize::MAX);
        tokio::spawn(async move {
            let _held = held;
            let header = v1::BlobHeader {
                sha256: sha256.to_string(),
                size_bytes: bytes.len() as u64,
                manifest,
                offset: 0,
            };
            let chunks = (0..bytes.len()).step_by(chunk_bytes).map(|start| {
                Part::Chunk(bytes.slice(start..bytes.len().min(start.saturating_add(chunk_bytes))))
            });
            for part in std::iter::once(Part::Header(header)).chain(chunks) {
                // A reader that is gone or stalls ends it, which frees the bytes.
                match tokio::time::timeout(idle, sender.send(Ok(message(part)))).await {
                    Ok(Ok(())) => {}
                    Ok(Err(_)) | Err(_) => return,
                }
            }
        });
        ReceiverStream::new(receiver)
    }

    /// A slot for a download.
    fn download_slot(&self) -> Result<OwnedSemaphorePermit, Fault> {
        let busy =
            || Fault::exhausted("DOWNLOADS_BUSY", "too many downloads are in progress", RETRY_TRANSFERS);
        self.downloads.clone().try_acquire_owned().map_err(|_| busy())
    }
}

#[async_trait]
impl compiler_service_server::CompilerService for Service {
    type GetArtifactStream = ReceiverStream<Result<v1::GetArtifactResponse, Status>>;
    type GetScriptStream = ReceiverStream<Result<v1::GetScriptResponse, Status>>;

    async fn upload(
        &self,
        request: Request<Streaming<v1::UploadRequest>>,
    ) -> Result<Response<v1::UploadResponse>, Status> {
        let busy = || Fault::exhausted("UPLOADS_BUSY", "too many uploads are in progress", RETRY_TRANSFERS);
        let _slot = self.uploads.try_acquire().map_err(|_| busy())?;
        let (owner, compiler) = (owner_of(&request), self.compiler_for(&request));
        upload::upload(&compiler, owner, request).await.map(Response::new)
    }

    async fn query_upload(
        &self,
        request: Request<v1::QueryUploadRequest>,
    ) -> Result<Response<v1::QueryUploadResponse>, Status> {
        upload::query_upload(&self.compiler, request)
    }

    async fn find_missing(
        &self,
        request: Request<v1::FindMissingRequest>,
    ) -> Result<Response<v1::FindMissingResponse>, Status> {
        let compiler = self.compiler_for(&request);
        let asked = request.into_inner().script_sha256;
        let most = DIGESTS_MAX;
        if asked.len() as u64 > most {
            let problem = format!("{} digests, at most {most} are allowed", asked.len());
            let fault =
                Fault::invalid("TOO_MANY_DIGESTS", problem.clone()).violation("script_sha256", problem);
            return Err(fault.into());
        }
        let mut missing: Vec<Sha256Digest> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        for (index, text) in asked.iter().enumerate() {
            let digest = digest(&format!("script_sha256[{index}]"), text)?;
            if seen.insert(digest) && !compiler.uses_script(digest) {
                missing.push(digest);
            }
        }
        let missing_sha256 = missing.iter().map(ToString::to_string).collect();
        Ok(Response::new(v1::FindMissingResponse { missing_sha256 }))
    }

    async fn compile(
        &self,
        request: Request<v1::CompileRequest>,
    ) -> Result<Response<v1::CompileResponse>, Status> {
        let (compiler, call) = (self.compiler_for(&request), CallContext::of(&request));
        let order = compile_order(request.get_ref())?;
        call.set_subject(order.script);
        let artifact = if request.get_ref().stored_only {
            let found = compiler.find_stored(&order).await;
            let missing = || Fault::not_found("ARTIFACT_NOT_FOUND", "artifact", order.script.to_string());
            found.map_err(Fault::from)?.ok_or_else(missing)?
        } else {
            compiler.compile(&order).await.map_err(Fault::from)?
        };
        Ok(Response::new(compiled(&artifact)))
    }

    async fn explain_artifact(
        &self,
        request: Request<v1::ExplainArtifactRequest>,
    ) -> Result<Response<v1::ExplainArtifactResponse>, Status> {
        let (compiler, call) = (self.compiler_for(&request), CallContext::of(&request));
        let key = digest("artifact_key", &request.get_ref().artifact_key)?;
        call.set_subject(key);
        Ok(Response::new(explained(&compiler, key).await?))
    }

    async fn learn(&self, request: Request<v1::LearnRequest>) -> Result<Response<v1::LearnResponse>, Status> {
        let (compiler, call) = (self.compiler_for(&request), CallContext::of(&request));
        // Only runners may act for all tenants.
        let teacher = if call.proven.any_tenant { Teacher::Runner } else { Teacher::Caller };
        let v1::LearnRequest { script_sha256, options: asked, left, targets } = request.into_inner();
        let script = digest("script_sha256", &script_sha256)?;
        call.set_subject(script);
        let (options, seen) = (options(asked)?, seen(left, targets)?);
        let learnt = compiler.learn(teacher, (script, options), &seen).await.map_err(Fault::from)?;
        Ok(Response::new(v1::LearnResponse { hints_sha256: hints(learnt) }))
    }

    async fn get_artifact(
        &self,
        request: Request<v1::GetArtifactRequest>,
    ) -> Result<Response<Self::GetArtifactStream>, Status> {
        let (compiler, call) = (self.compiler_for(&request), CallContext::of(&request));
        let key = digest("artifact_key", &request.into_inner().artifact_key)?;
        call.set_subject(key);
        let slot = self.download_slot()?;
        let bytes = compiler.stored_artifact(key).await.map_err(Fault::from)?;
        let Some((bytes, manifest)) = bytes else {
            return Err(Fault::not_found("ARTIFACT_NOT_FOUND", "artifact", key.to_string()).into());
        };
        let held = (slot, RequestBytes::hold(call.bytes.as_ref(), bytes.len())?);
        let whole = bytes.clone();
        let sha256 = blocking(move || Sha256Digest::of(&whole)).await.map_err(Fault::from)?;
        let stream =
            self.send(held, bytes, (sha256, manifest), |part| v1::GetArtifactResponse { part: Some(part) });
        Ok(Response::new(stream))
    }

    async fn get_script(
        &self,
        request: Request<v1::GetScriptRequest>,
    ) -> Result<Response<Self::GetScriptStream>, Status> {
        let (compiler, call) = (self.compiler_for(&request), CallContext::of(&request));
        let digest = digest("script_sha256", &request.into_inner().script_sha256)?;
        call.set_subject(digest);
        let slot = self.download_slot()?;
        let bytes = compiler.script(digest).await.map_err(Fault::from)?;
        let held = (slot, RequestBytes::hold(call.bytes.as_ref(), bytes.len())?);
        let stream = self.send(held, bytes, (digest, Bytes::new()), |part| v1::GetScriptResponse {
            part: Some(match part {
                Part::Header(header) => get_script_response::Part::Header(header),
                Part::Chunk(chunk) => get_script_response::Part::Chunk(chunk),
            }),
        });
        Ok(Response::new(stream))
    }

    async fn get_capabilities(
        &self,
        request: Request<v1::GetCompilerCapabilitiesRequest>,
    ) -> Result<Response<v1::CompilerCapabilities>, Status> {
        Ok(Response::new(capabilities(
            &self.compiler,
            &CallContext::of(&request).account(),
            self.message_bytes_max,
        )))
    }
}

/// Owner charged for an upload. Names are unauthenticated: they count within their peer.
fn owner_of<T>(request: &Request<T>) -> Owner {
    let number = |value: &dyn ToString| {
        let mut hash = DefaultHasher::new();
        value.to_string().hash(&mut hash);
        hash.finish()
    };
    let tenant = request.metadata().get(TENANT).and_then(|name| name.to_str().ok()).unwrap_or_default();
    Owner { peer: number(&CallContext::of(request).peer), tenant: number(&tenant) }
}

// Details of a stored artifact.

/// The store's and the signer's details of the artifact `key`.
pub(crate) async fn explained(
    compiler: &Compiler,
    key: ArtifactKey,
) -> Result<v1::ExplainArtifactResponse, Fault> {
    let Some((bytes, signed)) = compiler.stored_artifact(key).await? else {
        return Err(Fault::not_found("ARTIFACT_NOT_FOUND", "artifact", key.to_string()));
    };
    let keyring = compiler.trust().keyring();
    let explain = move || {
        let digest = Sha256Digest::of(&bytes);
        let reported = v1::ExplainArtifactResponse {
            artifact_key: key.to_string(),
            artifact_sha256: digest.to_string(),
            artifact_bytes: bytes.len() as u64,
            refused: Refusal::Malformed.into_str().to_owned(),
            ..Default::default()
        };
        let Some(claimed) = Manifest::claimed(&signed) else { return reported };
        let script = Sha256Digest(claimed.script);
        let facts = Facts { key, script, digest, length: bytes.len() as u64 };
        let refused = keyring.verify(&signed, &facts).err();
        v1::ExplainArtifactResponse {
            script_sha256: script.to_string(),
            engine: claimed.engine,
            target_cpu: claimed.cpu,
            target_features: claimed.features,
            key_id: claimed.key_id,
            not_after_s: claimed.not_after,
            refused: refused.as_ref().map(Refusal::into_str).unwrap_or_default().to_owned(),
            ..reported
        }
    };
    Ok(blocking(explain).await?)
}
