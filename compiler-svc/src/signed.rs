//! Stored form of artifacts: the library, then its manifest. Entries that do not verify are misses.

use std::{
    io,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use antares_abi::Sha256Digest;
use antares_pool::Sealed;
use antares_serve::Metrics;
use antares_trust::{Facts, Manifest, Refusal, Trust};
use bytes::Bytes;
use prometheus::IntCounterVec;
use strum::VariantNames as _;

use crate::artifact::CompileError;

/// Reason for a script whose native code was revoked.
pub(crate) const REVOKED: &str = "revoked";

/// End of an entry.
const MAGIC: &[u8; 4] = b"ASG1";

/// Validity of a signature: a year.
const VALID: Duration = Duration::from_secs(365 * 24 * 3_600);

/// Bytes of the manifest's length before it.
const LENGTH_BYTES: usize = 4;

/// Signs artifacts made here, and refuses others.
#[derive(Debug)]
pub(crate) struct Signing {
    pub(crate) trust: Arc<Trust>,
    refused: IntCounterVec,
}

impl Signing {
    pub(crate) fn new(trust: Arc<Trust>, metrics: &Metrics) -> Self {
        let refused = metrics.counters_of(
            "antares_artifacts_refused_total",
            "Artifacts that were refused for their manifests, by why.",
            "reason",
            Refusal::VARIANTS,
        );
        Self { trust, refused }
    }

    /// A manifest for `facts`.
    pub(crate) fn sign(&self, facts: &Facts) -> Bytes {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let signed = self.trust.keyring().sign(facts, (now + VALID).as_secs());
        // Without one, loaders refuse the artifact, and nothing else happens.
        signed.unwrap_or_default().into()
    }

    /// Whether native code with this digest may be handed out. Compiles are reproducible, so revoked code
    /// recurs.
    pub(crate) fn allows(&self, digest: &Sha256Digest, script: &Sha256Digest) -> Result<(), CompileError> {
        let keyring = self.trust.keyring();
        let detail = if keyring.is_digest_revoked(script) {
            format!("all native code of the script {script} was revoked")
        } else if keyring.is_digest_revoked(digest) {
            format!("its native code, {digest}, was revoked")
        } else {
            return Ok(());
        };
        self.record(Refusal::DigestRevoked);
        Err(CompileError::Refused { reason: REVOKED.to_owned(), detail })
    }

    /// Counts a refusal.
    pub(crate) fn record(&self, refusal: Refusal) {
        self.refused.with_label_values(&[refusal.into_str()]).inc();
    }
}

/// The entry of a library.
pub(crate) fn join(library: &Sealed, manifest: &[u8]) -> io::Result<Bytes> {
    let length = u32::try_from(manifest.len()).unwrap_or(0).to_le_bytes();
    let tail = [manifest, &length[..], &MAGIC[..]].concat();
    let bytes = usize::try_from(library.len()).map_err(io::Error::other)?;
    let mut entry = Vec::with_capacity(bytes.saturating_add(tail.len()));
    library.append_to(&mut entry)?;
    entry.extend(tail);
    Ok(entry.into())
}

/// Library and manifest of an entry; none if the format is invalid.
pub(crate) fn split(entry: &Bytes) -> Option<(Bytes, Bytes)> {
    let rest = entry.strip_suffix(MAGIC)?;
    let at = rest.len().checked_sub(LENGTH_BYTES)?;
    let length = u32::from_le_bytes(rest[at..].try_into().ok()?);
    let start = at.checked_sub(usize::try_from(length).ok()?)?;
    Some((entry.slice(..start), entry.slice(start..at)))
}

/// The script that an artifact claims as its source.
pub(crate) fn script_of(manifest: &[u8]) -> Option<Sha256Digest> {
    Manifest::claimed(manifest).map(|manifest| Sha256Digest(manifest.script))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_apart_as_they_were_put_together() {
        let library = Sealed::new("library", b"library").unwrap();
        let entry = join(&library, b"manifest").unwrap();
        assert_eq!(split(&entry), Some((Bytes::from_static(b"library"), Bytes::from_static(b"manifest"))));
        for length in 0..entry.len() {
            assert_eq!(split(&entry.slice(..length)), None);
        }
        assert_eq!(split(&Bytes::from_static(b"\xff\xff\xff\xffASG1")), None);
    }
}
