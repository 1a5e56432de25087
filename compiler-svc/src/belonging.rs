//! Files that belong to a revoked digest: a script and its stored native code.

use antares_abi::Sha256Digest;
use antares_cache::{Cache, Space};
use antares_serve::admin::Belonging;
use antares_trust::Manifest;

use crate::{signed::split, store_service::artifacts_of};

/// The script with `digest`, or whose library has it, as far as this store knows. Reads the whole store if
/// `digest` is not one of its scripts.
pub(crate) fn find(cache: &Cache, digest: Sha256Digest) -> Option<Belonging> {
    if cache.contains(Space::Script, digest.0) {
        let made = artifacts_of(cache, digest).filter_map(|key| manifest(cache, key.0));
        return Some(Belonging { script: digest, libraries: digests(made) });
    }
    let all = cache.list(Space::Artifact, None, usize::MAX).into_iter();
    let all: Vec<_> = all.filter_map(|entry| manifest(cache, entry.key)).collect();
    let found = all.iter().find(|manifest| [manifest.script, manifest.digest].contains(&digest.0))?;
    let script = found.script;
    let made = all.iter().filter(|manifest| manifest.script == script).cloned();
    Some(Belonging { script: Sha256Digest(script), libraries: digests(made) })
}

fn digests(made: impl Iterator<Item = Manifest>) -> Vec<Sha256Digest> {
    let mut digests: Vec<_> = made.map(|manifest| Sha256Digest(manifest.digest)).collect();
    digests.sort_unstable_by_key(|digest| digest.0);
    digests.dedup();
    digests
}

fn manifest(cache: &Cache, key: [u8; 32]) -> Option<Manifest> {
    let entry = cache.get(Space::Artifact, key)?;
    Manifest::claimed(&split(&entry.into())?.1)
}
