//! What is known of a stored artifact.

use antares_abi::{ArtifactKey, Sha256Digest};
use antares_proto::v1;
use antares_serve::Fault;
use antares_trust::{Facts, Manifest, Refusal};

use crate::{artifact::CompileError, blocking::blocking, compiler::Compiler};

/// What the store and the signer say of the artifact `key`.
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
        let told = v1::ExplainArtifactResponse {
            artifact_key: key.to_string(),
            artifact_sha256: digest.to_string(),
            artifact_bytes: bytes.len() as u64,
            refused: Refusal::Malformed.into_str().to_owned(),
            ..Default::default()
        };
        let Some(claimed) = Manifest::claimed(&signed) else { return told };
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
            ..told
        }
    };
    blocking(explain).await.map_err(|_| CompileError::Internal.into())
}
