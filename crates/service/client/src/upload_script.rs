//! Uploads what a server lacks: a script, or cell data. Calls first name them by digest.

use std::time::Instant;

use bytes::Bytes;
use tonic::Status;

use crate::{
    blobs::Blobs,
    call::Link,
    naming::{Naming, Script, digest},
    status::{Lack, is_no_script, lack, takes_no_uploads},
};

/// Size in bytes from which cell data is named by digest: many transactions share such cells.
pub(crate) const REFERENCE_BYTES_MIN: usize = 4 << 10;

/// Uploaded scripts remembered per server.
const UPLOADS_MAX: usize = 1024;

/// Calls `ask` with data named by digest, and again after `upload_script` has uploaded the missing data that a
/// status reports. Data that is missing even then is sent inline.
///
/// # Errors
/// The server's error, also from `upload_script`.
pub async fn by_digest_first<T, F>(
    ask: impl Fn(Naming) -> F,
    upload_script: impl AsyncFnOnce(&Status) -> Option<Result<Naming, Status>>,
) -> Result<T, Status>
where
    F: Future<Output = Result<T, Status>>,
{
    let status = match ask(Naming::Digest).await {
        Err(status) => status,
        answer => return answer,
    };
    let Some(naming) = upload_script(&status).await else { return Err(status) };
    match ask(naming?).await {
        // The server that has the upload may have ended, or evicted it.
        Err(status) if lack(&status).is_some() => ask(Naming::Inline).await,
        answer => answer,
    }
}

/// The new naming of what the server lacks according to `status`, after `upload`. None if it lacks nothing.
pub async fn uploaded(
    status: &Status,
    upload: impl Future<Output = Result<Naming, Status>>,
) -> Option<Result<Naming, Status>> {
    match lack(status)? {
        // A runner without its compiler still accepts inline data.
        Lack::Source => Some(Ok(Naming::Inline)),
        Lack::Script => Some(upload.await),
    }
}

/// The new naming of `script`, if it was missing for a call that `began` then and can be uploaded; or the
/// upload's error.
pub(crate) async fn upload_script(
    link: &Link,
    script: &Script,
    status: &Status,
    began: Instant,
) -> Option<Result<Naming, Status>> {
    let Script::Elf(elf) = script else { return None };
    uploaded(status, upload_once(link, elf, began)).await
}

/// The new naming of the data in `blobs`, if some was missing for a call that `began` then; or an upload's
/// error.
pub(crate) async fn upload_data(
    link: &Link,
    blobs: &Blobs,
    status: &Status,
    began: Instant,
) -> Option<Result<Naming, Status>> {
    if blobs.is_empty() {
        return None;
    }
    let upload_script = async {
        let send = |data: Bytes| async move { upload_once(link, &data, began).await };
        match blobs.upload_missing_blobs(|| link.upload(), send).await {
            Err(status) if takes_no_uploads(&status) => Ok(Naming::Inline),
            naming => naming,
        }
    };
    uploaded(status, upload_script).await
}

/// Uploads `elf`, unless another call has since this one began: a server accepts few uploads at a time.
pub(crate) async fn upload_once(link: &Link, elf: &Bytes, began: Instant) -> Result<Naming, Status> {
    let digest = digest(elf);
    let mut uploaded = link.server.uploaded.lock().await;
    if let Some((_, naming)) = uploaded.get(&digest).filter(|(when, _)| *when > began) {
        return Ok(*naming);
    }
    let naming = match link.upload().send(elf, &digest).await {
        Ok(_) => Naming::Digest,
        // A standalone runner may accept no uploads, but it accepts inline scripts.
        Err(status) if takes_no_uploads(&status) => Naming::Inline,
        // Files that are not RISC-V ELFs are not stored; the VM's error is the answer.
        Err(status) if is_no_script(&status) => Naming::Inline,
        Err(status) => return Err(status),
    };
    if uploaded.len() >= UPLOADS_MAX {
        uploaded.clear();
    }
    uploaded.insert(digest, (Instant::now(), naming));
    Ok(naming)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::status::reported;

    /// How calls name their script on a server that lacks `reason` for the first `lacking` calls, or until it got
    /// `upload`, and their result.
    async fn calls(
        lacking: usize,
        reason: &str,
        upload: Result<Naming, Status>,
    ) -> (Vec<Naming>, Result<(), String>) {
        let named = RefCell::new(Vec::new());
        let ask = |naming| {
            named.borrow_mut().push(naming);
            let is_lacking = named.borrow().len() <= lacking;
            async move { if is_lacking { Err(reported(reason)) } else { Ok(()) } }
        };
        let uploads = async |status: &Status| uploaded(status, async { upload }).await;
        let answer = by_digest_first(ask, uploads).await;
        (named.into_inner(), answer.map_err(|status| status.message().to_owned()))
    }

    #[tokio::test]
    async fn what_a_server_lacks_is_brought_and_asked_for_once_more() {
        use Naming::{Digest, Inline};
        assert_eq!(calls(1, "SCRIPT_NOT_FOUND", Ok(Digest)).await, (vec![Digest, Digest], Ok(())));
        assert_eq!(calls(1, "SCRIPT_NOT_FOUND", Ok(Inline)).await, (vec![Digest, Inline], Ok(())));
        assert_eq!(calls(1, "SOURCE_UNAVAILABLE", Ok(Digest)).await, (vec![Digest, Inline], Ok(())));
        let lost = calls(2, "SCRIPT_NOT_FOUND", Ok(Digest)).await;
        assert_eq!(lost, (vec![Digest, Digest, Inline], Ok(())));
        let full = calls(1, "SCRIPT_NOT_FOUND", Err(Status::resource_exhausted("full"))).await;
        assert_eq!(full, (vec![Digest], Err("full".to_owned())));
        let busy = calls(1, "WORKERS_BUSY", Ok(Digest)).await;
        assert_eq!(busy, (vec![Digest], Err("particulars".to_owned())), "it lacks nothing");
    }
}
