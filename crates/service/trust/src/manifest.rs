//! Signed manifests of artifacts.

use std::time::{SystemTime, UNIX_EPOCH};

use antares_abi::{ArtifactKey, ENGINE_VERSION, Sha256Digest, TARGET_CPU, TARGET_FEATURES};
use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantNames};

use crate::keyring::Keyring;

/// Prefix of every signed text, so that no other signature by the key is valid for a manifest.
const CONTEXT: &[u8] = b"antares-manifest-1\0";

const SIGNATURE_BYTES: usize = 64;

/// What a loader knows about an artifact before it trusts the manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The requested key.
    pub key: ArtifactKey,
    /// The requested script.
    pub script: Sha256Digest,
    /// Digest of the artifact's bytes.
    pub digest: Sha256Digest,
    /// Length of the artifact in bytes.
    pub length: u64,
}

/// The signer's claims about an artifact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Key of the artifact.
    pub key: [u8; 32],
    /// Digest of the script that it was compiled from.
    pub script: [u8; 32],
    /// Digest of the artifact's bytes.
    pub digest: [u8; 32],
    /// Length of the artifact in bytes.
    pub length: u64,
    /// Version of the code generator.
    pub engine: u32,
    /// Target processor.
    pub cpu: String,
    /// Processor features in addition to those of `cpu`.
    pub features: String,
    /// Id of the public key that verifies it.
    pub key_id: String,
    /// Expiry in seconds since 1970.
    pub not_after: u64,
}

impl Manifest {
    /// Decodes the manifest in `signed` without checking the signature. Trust it only after
    /// [`Keyring::verify`].
    pub fn claimed(signed: &[u8]) -> Option<Self> {
        let bytes = signed.get(..signed.len().checked_sub(SIGNATURE_BYTES)?)?;
        postcard::take_from_bytes(bytes).ok().map(|(manifest, _)| manifest)
    }
}

/// Why an artifact is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Refusal {
    /// The manifest is missing or truncated.
    #[error("it has no manifest that could be read")]
    Malformed,
    /// The signing key is not trusted.
    #[error("its key is not trusted")]
    KeyUnknown,
    /// The signing key was revoked.
    #[error("its key was revoked")]
    KeyRevoked,
    /// The signature is invalid.
    #[error("its signature is wrong")]
    Signature,
    /// The manifest is for another artifact.
    #[error("its manifest is that of another artifact")]
    OtherArtifact,
    /// The manifest is for other bytes.
    #[error("its manifest is for other bytes")]
    OtherBytes,
    /// Another engine version compiled the artifact.
    #[error("another engine made it")]
    OtherEngine,
    /// The artifact needs features that this processor lacks.
    #[error("it is for another processor")]
    OtherCpu,
    /// The artifact or its script was revoked.
    #[error("it, or its script, was revoked")]
    DigestRevoked,
    /// The manifest has expired.
    #[error("its time is over")]
    Expired,
}

fn signed_text(manifest: &[u8]) -> Vec<u8> {
    [CONTEXT, manifest].concat()
}

impl Keyring {
    /// A signed manifest for `facts`; `None` if this keyring has no private key.
    pub fn sign(&self, facts: &Facts, not_after: u64) -> Option<Vec<u8>> {
        self.sign_manifest(Manifest {
            key: facts.key.0,
            script: facts.script.0,
            digest: facts.digest.0,
            length: facts.length,
            engine: ENGINE_VERSION,
            cpu: TARGET_CPU.to_owned(),
            features: TARGET_FEATURES.to_owned(),
            key_id: String::new(),
            not_after,
        })
    }

    /// Signs `manifest`, with the id of the signing key in it.
    pub fn sign_manifest(&self, manifest: Manifest) -> Option<Vec<u8>> {
        let (key_id, pair) = self.signer()?;
        let manifest = Manifest { key_id: key_id.to_owned(), ..manifest };
        let mut bytes = postcard::to_allocvec(&manifest).ok()?;
        let signature = pair.sign(&signed_text(&bytes));
        bytes.extend_from_slice(signature.as_ref());
        Some(bytes)
    }

    /// Verifies that `signed` is a manifest for `facts` by a trusted key, for code that can run here and now.
    ///
    /// # Errors
    /// The first reason for a refusal.
    pub fn verify(&self, signed: &[u8], facts: &Facts) -> Result<Manifest, Refusal> {
        let (manifest, bytes, signature) = parse(signed)?;
        self.check_signature(&manifest, bytes, signature)?;
        self.check_facts(manifest, facts)
    }

    /// As [`Keyring::verify`], for a caller that does not know the script; accepts the script of the
    /// manifest.
    ///
    /// # Errors
    /// The first reason for a refusal.
    pub fn verify_of_any_script(
        &self,
        signed: &[u8],
        key: ArtifactKey,
        digest: Sha256Digest,
        length: u64,
    ) -> Result<Manifest, Refusal> {
        let script = Sha256Digest(parse(signed)?.0.script);
        self.verify(signed, &Facts { key, script, digest, length })
    }

    /// As [`Keyring::verify`], without checking the signature: for artifacts from a store whose writers are
    /// all trusted. Refuses revoked artifacts too.
    ///
    /// # Errors
    /// The first reason for a refusal.
    pub fn verify_unsigned(&self, signed: &[u8], facts: &Facts) -> Result<Manifest, Refusal> {
        let (manifest, _, _) = parse(signed)?;
        if self.is_key_revoked(&manifest.key_id) {
            return Err(Refusal::KeyRevoked);
        }
        self.check_facts(manifest, facts)
    }

    fn check_signature(&self, manifest: &Manifest, bytes: &[u8], signature: &[u8]) -> Result<(), Refusal> {
        if self.is_key_revoked(&manifest.key_id) {
            return Err(Refusal::KeyRevoked);
        }
        let public = self.public(&manifest.key_id).ok_or(Refusal::KeyUnknown)?;
        let verified = UnparsedPublicKey::new(&ED25519, public).verify(&signed_text(bytes), signature);
        verified.map_err(|_| Refusal::Signature)
    }

    fn check_facts(&self, manifest: Manifest, facts: &Facts) -> Result<Manifest, Refusal> {
        if (manifest.key, manifest.script) != (facts.key.0, facts.script.0) {
            return Err(Refusal::OtherArtifact);
        }
        if (manifest.digest, manifest.length) != (facts.digest.0, facts.length) {
            return Err(Refusal::OtherBytes);
        }
        if self.is_digest_revoked(&facts.digest) || self.is_digest_revoked(&facts.script) {
            return Err(Refusal::DigestRevoked);
        }
        if manifest.engine != ENGINE_VERSION {
            return Err(Refusal::OtherEngine);
        }
        if !runs_here(&manifest.cpu, &manifest.features) {
            return Err(Refusal::OtherCpu);
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(u64::MAX, |now| now.as_secs());
        if now > manifest.not_after {
            return Err(Refusal::Expired);
        }
        Ok(manifest)
    }
}

/// Splits `signed` into manifest, manifest bytes and signature.
fn parse(signed: &[u8]) -> Result<(Manifest, &[u8], &[u8]), Refusal> {
    let split = signed.len().checked_sub(SIGNATURE_BYTES).ok_or(Refusal::Malformed)?;
    let (bytes, signature) = signed.split_at(split);
    let (manifest, rest) = postcard::take_from_bytes::<Manifest>(bytes).map_err(|_| Refusal::Malformed)?;
    if rest.is_empty() { Ok((manifest, bytes, signature)) } else { Err(Refusal::Malformed) }
}

/// Whether this processor has all features of `cpu` and `features`, such as `+adx,+bmi2`. Unknown features
/// count as absent.
fn runs_here(cpu: &str, features: &str) -> bool {
    if cpu != TARGET_CPU || !has_all(&["avx2", "bmi1", "bmi2", "f16c", "fma", "lzcnt", "movbe"]) {
        return false;
    }
    let mut names = features.split(',').filter(|name| !name.is_empty());
    names.all(|name| name.strip_prefix('+').is_some_and(|name| has_all(&[name])))
}

fn has_all(names: &[&str]) -> bool {
    names.iter().all(|name| match *name {
        "adx" => is_x86_feature_detected!("adx"),
        "avx2" => is_x86_feature_detected!("avx2"),
        "bmi1" => is_x86_feature_detected!("bmi1"),
        "bmi2" => is_x86_feature_detected!("bmi2"),
        "f16c" => is_x86_feature_detected!("f16c"),
        "fma" => is_x86_feature_detected!("fma"),
        "lzcnt" => is_x86_feature_detected!("lzcnt"),
        "movbe" => is_x86_feature_detected!("movbe"),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        let digest = |number| Sha256Digest([number; 32]);
        Facts { key: digest(1), script: digest(2), digest: digest(3), length: 4 }
    }

    fn later() -> u64 {
        u64::MAX / 2
    }

    #[test]
    fn what_was_signed_is_taken_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let keys = Keyring::open_or_make(folder.path()).unwrap();
        let signed = keys.sign(&facts(), later()).unwrap();
        assert!(keys.verify(&signed, &facts()).is_ok());
        let other = Sha256Digest([9; 32]);
        for (facts, refusal) in [
            (Facts { key: other, ..facts() }, Refusal::OtherArtifact),
            (Facts { script: other, ..facts() }, Refusal::OtherArtifact),
            (Facts { digest: other, ..facts() }, Refusal::OtherBytes),
            (Facts { length: 5, ..facts() }, Refusal::OtherBytes),
        ] {
            assert_eq!(keys.verify(&signed, &facts), Err(refusal));
        }
        for length in 0..signed.len() {
            assert!(keys.verify(&signed[..length], &facts()).is_err(), "{length}");
        }
        for index in 0..signed.len() {
            let mut forged = signed.clone();
            forged[index] ^= 1;
            assert!(keys.verify(&forged, &facts()).is_err(), "{index}");
        }
        let past = keys.sign(&facts(), 1).unwrap();
        assert_eq!(keys.verify(&past, &facts()), Err(Refusal::Expired));
        let ours = Manifest::claimed(&signed).unwrap();
        for (cpu, features) in [("x86-64-v4", "+adx"), (TARGET_CPU, "+adx,+avx512f"), (TARGET_CPU, "-adx")] {
            let other = Manifest { cpu: cpu.to_owned(), features: features.to_owned(), ..ours.clone() };
            let signed = keys.sign_manifest(other).unwrap();
            assert_eq!(keys.verify(&signed, &facts()), Err(Refusal::OtherCpu));
        }
    }

    #[test]
    fn whoever_signed_it_it_is_about_these_bytes() {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [theirs, ours] = folders.each_ref().map(|folder| Keyring::open_or_make(folder.path()).unwrap());
        let signed = theirs.sign(&facts(), later()).unwrap();
        let Facts { key, script, digest, length } = facts();
        assert_eq!(ours.verify(&signed, &facts()), Err(Refusal::KeyUnknown));
        assert!(ours.verify_unsigned(&signed, &facts()).is_ok());
        assert!(theirs.verify_of_any_script(&signed, key, digest, length).is_ok());
        assert_eq!(ours.verify_of_any_script(&signed, key, digest, length), Err(Refusal::KeyUnknown));
        assert_eq!(theirs.verify_of_any_script(&signed, script, digest, length), Err(Refusal::OtherArtifact));
        let other = Facts { digest: key, ..facts() };
        assert_eq!(ours.verify_unsigned(&signed, &other), Err(Refusal::OtherBytes));
        assert!(ours.verify_unsigned(&signed[1..], &facts()).is_err());
        Keyring::revoke(folders[1].path(), &digest.to_string()).unwrap();
        let ours = Keyring::open(folders[1].path()).unwrap();
        assert_eq!(ours.verify_unsigned(&signed, &facts()), Err(Refusal::DigestRevoked));
    }

    #[test]
    fn keys_change_and_are_revoked() {
        let folder = tempfile::tempdir().unwrap();
        let old = Keyring::open_or_make(folder.path()).unwrap();
        let signed = old.sign(&facts(), later()).unwrap();
        // A new key signs; signatures of the old key stay valid.
        let old_id = old.signer().unwrap().0.to_owned();
        let new_id = Keyring::generate(folder.path(), true).unwrap();
        assert_ne!(new_id, old_id);
        let new = Keyring::open(folder.path()).unwrap();
        assert_eq!(new.signer().unwrap().0, new_id);
        assert!(new.verify(&signed, &facts()).is_ok());
        let newer = new.sign(&facts(), later()).unwrap();
        assert_eq!(old.verify(&newer, &facts()), Err(Refusal::KeyUnknown));
        Keyring::revoke(folder.path(), &old_id).unwrap();
        let new = Keyring::open(folder.path()).unwrap();
        assert_eq!(new.verify(&signed, &facts()), Err(Refusal::KeyRevoked));
        assert!(new.verify(&newer, &facts()).is_ok());
        Keyring::revoke(folder.path(), &facts().digest.to_string()).unwrap();
        let new = Keyring::open(folder.path()).unwrap();
        assert_eq!(new.verify(&newer, &facts()), Err(Refusal::DigestRevoked));
        // Another machine has only the list.
        let runner = Keyring::read(&folder.path().join(crate::LIST)).unwrap();
        assert!(runner.signer().is_none() && runner.sign(&facts(), later()).is_none());
        assert_eq!(runner.verify(&signed, &facts()), Err(Refusal::KeyRevoked));
        // The signing key cannot be revoked.
        assert!(Keyring::revoke(folder.path(), &new_id).is_err());
        assert!(Keyring::revoke(folder.path(), "nothing").is_err());
    }
}
