//! The calls of `StoreService`: operators' actions on single scripts and artifacts.

use std::time::Duration;

use antares_abi::{CodeTier, CompileOptions, Sha256Digest};
use antares_cache::{Cache, Pinned, Space};
use antares_proto::v1::{self, StoredKind, store_service_server};
use antares_serve::{
    CallContext, Fault, Salt,
    admin::{ISAS, VM_VERSIONS},
    is_operator,
};
use tonic::{Request, Response, Status, async_trait};

use crate::{
    blocking::blocking, compiler::Compiler, convert::digest, learn::stored_keys, order::Target,
    owned::marks_of,
};

/// Entries of a page.
const LISTED_MAX: usize = 1000;

/// Wait of an operator while all pins are taken: until something is unpinned.
const RETRY_PIN: Duration = Duration::from_secs(60);

/// Wait of an operator whose removal did not reach the shared tier.
const RETRY_SHARED: Duration = Duration::from_secs(5);

/// The gRPC service of a [`Compiler`]'s store.
#[derive(Clone)]
pub(crate) struct StoreService(pub(crate) Compiler);

/// The space that a request names, if its caller is authorized.
fn admitted<T>(request: &Request<T>, kind: i32) -> Result<Space, Fault> {
    is_operator(request)?;
    match StoredKind::try_from(kind) {
        Ok(StoredKind::Script) => Ok(Space::Script),
        Ok(StoredKind::Artifact) => Ok(Space::Artifact),
        Ok(StoredKind::Unspecified) | Err(_) => {
            Err(Fault::field("REQUEST_INVALID", "kind", "must be a script or an artifact"))
        }
    }
}

/// The key after which a page of this kind starts.
fn page_start(kind: i32, page_token: &str) -> Result<Option<[u8; 32]>, Fault> {
    if page_token.is_empty() {
        return Ok(None);
    }
    let invalid = || Fault::field("REQUEST_INVALID", "page_token", "is not one of this list");
    let key = page_token.strip_prefix(&page_prefix(kind)).and_then(|key| key.parse::<Sha256Digest>().ok());
    key.map(|key| Some(key.0)).ok_or_else(invalid)
}

/// Prefix of page tokens: a token of another list is invalid.
fn page_prefix(kind: i32) -> String {
    format!("{kind}-")
}

/// Entries of a page for a request of `asked`.
fn page_entries(asked: u32) -> usize {
    if asked == 0 { LISTED_MAX } else { LISTED_MAX.min(asked as usize) }
}

/// Runs `work` on the store, on a blocking thread.
async fn on_store<T: Send + 'static>(
    compiler: &Compiler,
    work: impl FnOnce(&Cache) -> T + Send + 'static,
) -> Result<T, Fault> {
    let cache = compiler.cache().clone();
    Ok(blocking(move || work(&cache)).await?)
}

/// Keys of all possible artifacts of a script, shared and tenants' own, and of its hints.
pub(crate) fn artifacts_of(cache: &Cache, script: Sha256Digest) -> impl Iterator<Item = Sha256Digest> {
    let salts = marks_of(cache, script).into_iter().map(|(_, holder)| Salt::of(holder));
    let isas = || ISAS.into_iter().filter_map(|isa| isa.parse().ok());
    salts.chain([Salt::default()]).flat_map(move |salt| {
        let options = isas().flat_map(|isa| VM_VERSIONS.map(|vm_version| CompileOptions { vm_version, isa }));
        options.flat_map(move |options| {
            let key = |tier| Sha256Digest(salt.apply(Sha256Digest::for_artifact(script, options, tier).0));
            CodeTier::ALL.map(key).into_iter().chain(stored_keys(cache, Target { script, options }, salt))
        })
    })
}

/// Removes an entry and everything made from it. Returns the number, and what to remove elsewhere.
fn remove(cache: &Cache, space: Space, key: Sha256Digest) -> (u32, Vec<(Space, [u8; 32])>) {
    let mut gone = vec![(space, key.0)];
    if space == Space::Script {
        gone.extend(artifacts_of(cache, key).map(|key| (Space::Artifact, key.0)));
        for (mark, _) in marks_of(cache, key) {
            let _ = cache.remove(Space::Artifact, mark);
        }
    }
    (gone.iter().map(|(space, key)| u32::from(cache.remove(*space, *key))).sum(), gone)
}

#[async_trait]
impl store_service_server::StoreService for StoreService {
    async fn list_stored(
        &self,
        request: Request<v1::ListStoredRequest>,
    ) -> Result<Response<v1::ListStoredResponse>, Status> {
        let space = admitted(&request, request.get_ref().kind)?;
        let kind = request.get_ref().kind;
        let after = page_start(kind, &request.get_ref().page_token)?;
        let entries_max = page_entries(request.get_ref().page_size);
        // One extra entry shows whether another page follows.
        let list = move |cache: &Cache| cache.list(space, after, entries_max + 1);
        let mut listed = on_store(&self.0, list).await?;
        let has_more = listed.len() > entries_max;
        listed.truncate(entries_max);
        let last = listed
            .last()
            .filter(|_| has_more)
            .map(|entry| page_prefix(kind) + &Sha256Digest(entry.key).to_string());
        let entries = listed.into_iter().map(|entry| v1::StoredEntry {
            key: Sha256Digest(entry.key).to_string(),
            size_bytes: entry.bytes,
            pinned: entry.is_pinned,
            used: entry.was_read,
        });
        Ok(Response::new(v1::ListStoredResponse {
            entries: entries.collect(),
            next_page_token: last.unwrap_or_default(),
        }))
    }

    async fn remove_stored(
        &self,
        request: Request<v1::RemoveStoredRequest>,
    ) -> Result<Response<v1::RemoveStoredResponse>, Status> {
        let space = admitted(&request, request.get_ref().kind)?;
        let key = digest("key", &request.get_ref().key)?;
        CallContext::of(&request).set_subject(key);
        let (removed, gone) = on_store(&self.0, move |cache| remove(cache, space, key)).await?;
        // Memory may have a removed script's artifacts under any of their keys.
        self.0.shared.tiers.forget_all();
        if let Some(shared) = self.0.shared.tiers.shared() {
            for (space, key) in gone {
                shared.remove(space, key).await.map_err(|error| {
                    let problem = format!("removed here, but the shared tier still has it: {error}");
                    Fault::unavailable("SHARED_TIER", problem, RETRY_SHARED)
                })?;
            }
        }
        tracing::warn!(kind = space.name(), %key, removed, "removed by an operator");
        Ok(Response::new(v1::RemoveStoredResponse { removed }))
    }

    async fn pin_stored(
        &self,
        request: Request<v1::PinStoredRequest>,
    ) -> Result<Response<v1::PinStoredResponse>, Status> {
        let space = admitted(&request, request.get_ref().kind)?;
        let key = digest("key", &request.get_ref().key)?;
        CallContext::of(&request).set_subject(key);
        let pinned = request.get_ref().pinned;
        match on_store(&self.0, move |cache| cache.pin(space, key.0, pinned)).await? {
            Pinned::Done => {
                tracing::warn!(kind = space.name(), %key, pinned, "pinned or unpinned by an operator");
                Ok(Response::new(v1::PinStoredResponse {}))
            }
            Pinned::Absent => {
                let reason = match space {
                    Space::Script => "SCRIPT_NOT_FOUND",
                    Space::Artifact => "ARTIFACT_NOT_FOUND",
                };
                Err(Fault::not_found(reason, space.name(), key.to_string()).into())
            }
            Pinned::NoRoom => {
                let problem = "half of the store's budget is pinned; unpin something first";
                Err(Fault::exhausted("PINS_FULL", problem, RETRY_PIN).into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use antares_abi::Isa;
    use antares_cache::CacheConfig;

    use antares_serve::Peer;

    use super::*;
    use crate::owned::{mark, mark_key};

    #[test]
    fn all_artifacts_of_a_script_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(CacheConfig::new(folder.path().to_owned(), 64 << 20)).unwrap();
        let keys: std::collections::HashSet<_> = artifacts_of(&cache, Sha256Digest([1; 32])).collect();
        assert_eq!(keys.len(), VM_VERSIONS.len() * ISAS.len() * 2);
    }

    #[test]
    fn a_script_goes_with_the_marks_and_the_native_code_of_tenants() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(CacheConfig::new(folder.path().to_owned(), 64 << 20)).unwrap();
        let (script, options) =
            (Sha256Digest::of(b"script"), CompileOptions { vm_version: 2, isa: Isa::of_version(2) });
        cache.put(Space::Script, script.0, b"script").unwrap();
        for holder in [[7; 32], [8; 32]] {
            let code = Salt::of(holder).apply(Sha256Digest::for_artifact(script, options, CodeTier::Full).0);
            for (key, bytes) in [(code, vec![1]), (mark_key(holder, script), mark(holder, script, 6))] {
                cache.put(Space::Artifact, key, &bytes).unwrap();
            }
        }
        assert_eq!(remove(&cache, Space::Script, script).0, 3, "the script and two libraries");
        assert_eq!(cache.list(Space::Artifact, None, usize::MAX).len(), 0);
    }

    #[test]
    fn strangers_are_no_operators() {
        let mut request = Request::new(());
        assert!(admitted(&request, StoredKind::Script.into()).is_err());
        for (address, is_operator) in
            [("127.0.0.1:1", true), ("[::1]:1", true), ("[::ffff:127.0.0.1]:1", true), ("10.0.0.1:1", false)]
        {
            let address: std::net::SocketAddr = address.parse().unwrap();
            let mut from_there = CallContext::outside();
            (from_there.peer, from_there.proven.loopback) = (Peer::from(address), true);
            request.extensions_mut().insert(from_there);
            assert_eq!(admitted(&request, StoredKind::Script.into()).is_ok(), is_operator, "{address}");
        }
        let mut with_role = CallContext::outside();
        with_role.proven.role = true;
        request.extensions_mut().insert(with_role);
        assert!(admitted(&request, StoredKind::Script.into()).is_ok());
        assert!(admitted(&request, 0).is_err());
    }
}
