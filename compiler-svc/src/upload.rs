//! The upload calls: a resumable upload of a script, and its progress.

use std::sync::Arc;

use antares_abi::Sha256Digest;
use antares_cache::Owner;
use antares_config::millis;
use antares_proto::v1::{self, upload_request};
use antares_serve::{CallContext, Fault, caller_s};
use bytes::Bytes;
use tonic::{Request, Response, Status, Streaming};

use crate::{
    blocking::blocking,
    compiler::Compiler,
    convert::digest,
    limits::CHUNK_BYTES_MAX,
    scripts::StoreScriptError,
    uploads::{UploadError, Uploads, Writing},
};

/// The header of an upload.
#[derive(Clone, Copy, Debug)]
struct Announced {
    script: Sha256Digest,
    size: u64,
    offset: u64,
}

/// The parts of an upload as they arrive.
struct Parts<'a> {
    compiler: &'a Compiler,
    stream: Streaming<v1::UploadRequest>,
}

pub(crate) async fn upload(
    compiler: &Compiler,
    owner: Owner,
    request: Request<Streaming<v1::UploadRequest>>,
) -> Result<v1::UploadResponse, Status> {
    let call = CallContext::of(&request);
    let mut parts = Parts { compiler, stream: request.into_inner() };
    let announced = parts.header().await?;
    let Announced { script, size, offset } = announced;
    call.set_subject(script);
    let holder = compiler.account.owner();
    // Before writing anything: partial uploads of other scripts count as well.
    let beside = compiler.shared.uploads.bytes_of_others(holder, script);
    drop(compiler.reserve(script, size.saturating_add(beside)).await?);
    let (uploads, cache) = (compiler.shared.uploads.clone(), compiler.cache().clone());
    let begun = move || uploads.begin(&cache, (holder, script), size, offset);
    let writing = off_thread(&compiler.shared.uploads, begun).await?;
    let writing = parts.body(writing, announced).await?;
    let already_stored = store(compiler, owner, writing, script).await?;
    tracing::info!(%script, bytes = size, offset, already_stored, "uploaded");
    Ok(v1::UploadResponse { sha256: script.to_string(), size_bytes: size, already_stored })
}

pub(crate) fn query_upload(
    compiler: &Compiler,
    request: Request<v1::QueryUploadRequest>,
) -> Result<Response<v1::QueryUploadResponse>, Status> {
    let call = CallContext::of(&request);
    let compiler = compiler.of(call.account());
    let script = digest("script_sha256", &request.get_ref().script_sha256)?;
    call.set_subject(script);
    let received = compiler.shared.uploads.received(compiler.account.owner(), script);
    Ok(Response::new(v1::QueryUploadResponse {
        received_bytes: received.map_or(0, |received| received.bytes),
        size_bytes: received.map_or(0, |received| received.size),
        stored: compiler.has_script(script),
    }))
}

impl Parts<'_> {
    /// The next message; none at the end.
    async fn next(&mut self) -> Result<Option<upload_request::Part>, Status> {
        let idle = self.compiler.limits().idle_max;
        let next = tokio::time::timeout(idle, self.stream.message()).await;
        let Ok(message) = next else {
            let problem = format!("nothing came for {} ms", millis(idle));
            return Err(Fault::aborted("UPLOAD_IDLE", problem).into());
        };
        match message.map_err(caller_s)? {
            None => Ok(None),
            Some(v1::UploadRequest { part: Some(part) }) => Ok(Some(part)),
            Some(v1::UploadRequest { part: None }) => Err(malformed("a message without a part").into()),
        }
    }

    /// The checked header.
    async fn header(&mut self) -> Result<Announced, Status> {
        let Some(upload_request::Part::Header(header)) = self.next().await? else {
            return Err(malformed("the first message must be a header").into());
        };
        let script = digest("header.sha256", &header.sha256)?;
        let (size, offset) = (header.size_bytes, header.offset);
        let most = self.compiler.limits().script_bytes_max;
        if size > most {
            let problem = format!("must be at most {most} bytes, is {size}");
            let fault = Fault::field("SCRIPT_TOO_LARGE", "header.size_bytes", &problem);
            return Err(fault.metadata("script_bytes_max", most.to_string()).into());
        }
        if offset > size {
            let problem = format!("must be at most size_bytes, {size}, is {offset}");
            return Err(Fault::field("UPLOAD_MALFORMED", "header.offset", &problem).into());
        }
        Ok(Announced { script, size, offset })
    }

    /// Writes the chunks, whose total must match the announced size. An interrupted upload stays; an invalid
    /// one does not.
    async fn body(&mut self, mut writing: Writing, announced: Announced) -> Result<Arc<Writing>, Status> {
        let Announced { size, offset, .. } = announced;
        let mut came = offset;
        while let Some(part) = self.next().await? {
            let chunk = match self.checked(part, size, came) {
                Ok(chunk) => chunk,
                Err(fault) => {
                    writing.is_over = true;
                    return Err(fault.into());
                }
            };
            let cache = self.compiler.cache().clone();
            let add = move || writing.add(&cache, &chunk).map(|came| (writing, came));
            (writing, came) = off_thread(&self.compiler.shared.uploads, add).await?;
        }
        if came != size {
            // A proxy may have turned an interruption into a normal end.
            return Err(size_mismatch(size, came).into());
        }
        Ok(Arc::new(writing))
    }

    fn checked(&self, part: upload_request::Part, size: u64, came: u64) -> Result<Bytes, Fault> {
        let upload_request::Part::Chunk(chunk) = part else { return Err(malformed("a second header")) };
        let (bytes, most) = (chunk.len() as u64, CHUNK_BYTES_MAX);
        if bytes > most {
            return Err(malformed(&format!("a chunk of {bytes} bytes, at most {most} are allowed")));
        }
        if bytes == 0 {
            return Err(malformed("an empty chunk"));
        }
        if bytes > size - came {
            return Err(size_mismatch(size, came + bytes));
        }
        Ok(chunk)
    }
}

/// Stores the received bytes. Only one upload at a time is read into memory.
async fn store(
    compiler: &Compiler,
    owner: Owner,
    writing: Arc<Writing>,
    script: Sha256Digest,
) -> Result<bool, Status> {
    let uploads = compiler.shared.uploads.clone();
    let _turn = uploads.storing.acquire().await;
    let file = writing.clone();
    let whole = off_thread(&uploads, move || {
        let (bytes, digest) = file.digest();
        if digest == script { file.read(bytes).map(Some) } else { Ok(None) }
    });
    let stored = match whole.await? {
        Some(bytes) => compiler.store_script(Some(owner), script, bytes.into()).await,
        None => Err(StoreScriptError::WrongDigest),
    };
    let is_over = match &stored {
        Ok(_) | Err(StoreScriptError::WrongDigest) => true,
        // The same bytes may fit later.
        Err(StoreScriptError::Rejected(_) | StoreScriptError::Quota(_) | StoreScriptError::Internal) => false,
    };
    if is_over && let Some(mut writing) = Arc::into_inner(writing) {
        writing.is_over = true;
    }
    Ok(stored.map_err(Fault::from)?)
}

async fn off_thread<T: Send + 'static>(
    uploads: &Uploads,
    work: impl FnOnce() -> Result<T, UploadError> + Send + 'static,
) -> Result<T, Fault> {
    blocking(work).await.unwrap_or(Err(UploadError::Internal)).map_err(|error| uploads.fault(error))
}

fn malformed(problem: &str) -> Fault {
    Fault::invalid("UPLOAD_MALFORMED", problem)
}

fn size_mismatch(said: u64, came: u64) -> Fault {
    Fault::invalid("SIZE_MISMATCH", format!("the header said {said} bytes, {came} came"))
}
