//! Owners of uploads: a mark for each script of a tenant, stored with the artifacts.
//!
//! Each script is stored once, for all its uploaders. If tenants are isolated, a tenant sees a script only with
//! its own mark. Evicting the mark hides the script, and the next upload restores it. The keys of a tenant's
//! marks share a prefix, so that they can be counted after a restart.

use antares_abi::{ArtifactKey, Sha256Digest};
use antares_cache::{Cache, Put, Space};
use antares_serve::{Account, Fault, OnDrop};
use bytes::Bytes;

use crate::{artifact::CompileError, blocking::blocking, compiler::Compiler, signed::script_of};

/// Bytes of a mark's key for the tenant; the rest is for the script.
const TENANT_BYTES: usize = 16;

/// Bytes of a mark: a script's digest and its size. The rest of its owner follows.
const MARK_BYTES: usize = 40;

pub(crate) fn mark_key(holder: [u8; 32], script: Sha256Digest) -> [u8; 32] {
    let mut key = holder;
    key[TENANT_BYTES..].copy_from_slice(&script.0[TENANT_BYTES..]);
    key
}

pub(crate) fn mark(holder: [u8; 32], script: Sha256Digest, bytes: u64) -> Vec<u8> {
    [&script.0[..], &bytes.to_le_bytes(), &holder[TENANT_BYTES..]].concat()
}

/// Bytes of the scripts with marks of `holder`. Removes marks of missing scripts.
fn count(cache: &Cache, holder: [u8; 32]) -> u64 {
    let mut first = holder;
    first[TENANT_BYTES..].fill(0);
    let own = cache.list(Space::Artifact, Some(first), usize::MAX).into_iter();
    let own = own.take_while(|entry| entry.key[..TENANT_BYTES] == holder[..TENANT_BYTES]);
    let bytes = own.filter_map(|entry| match read(cache, entry.key) {
        Some((script, size)) if cache.contains(Space::Script, script.0) => Some(size),
        _ => {
            let _ = cache.remove(Space::Artifact, entry.key);
            None
        }
    });
    bytes.fold(0, u64::saturating_add)
}

/// The marks for a script, each with its owner.
pub(crate) fn marks_of(cache: &Cache, script: Sha256Digest) -> Vec<([u8; 32], [u8; 32])> {
    let mut keys = cache.list(Space::Artifact, None, usize::MAX);
    keys.retain(|entry| entry.key[TENANT_BYTES..] == script.0[TENANT_BYTES..]);
    let holder = |mark: [u8; 32]| {
        let rest: [u8; TENANT_BYTES] =
            cache.get(Space::Artifact, mark)?.get(MARK_BYTES..)?.try_into().ok()?;
        let mut holder = mark;
        holder[TENANT_BYTES..].copy_from_slice(&rest);
        Some((mark, holder))
    };
    keys.into_iter().filter_map(|entry| holder(entry.key)).collect()
}

/// The script and size of a mark.
fn read(cache: &Cache, key: [u8; 32]) -> Option<(Sha256Digest, u64)> {
    let bytes = cache.get(Space::Artifact, key)?;
    let (script, size) = bytes.get(..MARK_BYTES)?.split_at_checked(32)?;
    Some((Sha256Digest(script.try_into().ok()?), u64::from_le_bytes(size.try_into().ok()?)))
}

impl Compiler {
    /// The same compiler for calls of `account`.
    pub fn of(&self, account: Account) -> Self {
        Self { shared: self.shared.clone(), account, leaving: OnDrop::GoesOn }
    }

    /// The same for a caller whose compiles end when it goes away and nobody else waits.
    pub(crate) fn ending_alone(self) -> Self {
        Self { leaving: OnDrop::EndsAlone, ..self }
    }

    /// Whether the script is visible to the caller, stored or not.
    pub(crate) fn owns(&self, script: Sha256Digest) -> bool {
        let account = &self.account;
        !account.is_isolated() || self.cache().contains(Space::Artifact, mark_key(account.owner(), script))
    }

    /// Whether a script is stored and visible to the caller.
    pub fn has_script(&self, digest: Sha256Digest) -> bool {
        self.owns(digest) && self.shared.cache.contains(Space::Script, digest.0)
    }

    /// Like [`Compiler::has_script`], but counts as a use, which defers eviction.
    pub(crate) fn uses_script(&self, digest: Sha256Digest) -> bool {
        self.owns(digest) && self.shared.cache.record_use(Space::Script, digest.0)
    }

    /// The bytes of a stored script, verified.
    ///
    /// # Errors
    /// [`CompileError::ScriptNotFound`] and [`CompileError::Internal`].
    pub async fn script(&self, digest: Sha256Digest) -> Result<Bytes, CompileError> {
        if !self.owns(digest) {
            return Err(CompileError::ScriptNotFound(digest));
        }
        let found = self.shared.script_bytes(digest).await?;
        found.ok_or(CompileError::ScriptNotFound(digest))
    }

    /// The bytes of a stored artifact and its manifest, if any. The loader verifies them.
    ///
    /// # Errors
    /// [`CompileError::Internal`].
    pub async fn stored_artifact(&self, key: ArtifactKey) -> Result<Option<(Bytes, Bytes)>, CompileError> {
        let kept = Sha256Digest(self.account.salt().apply(key.0));
        let found = self.shared.stored(kept, key).await?;
        let is_seen = |(_, manifest): &(Bytes, Bytes)| {
            !self.account.is_isolated() || script_of(manifest).is_some_and(|script| self.owns(script))
        };
        Ok(found.filter(is_seen))
    }

    /// Whether the caller may compile `script`: it has uploaded it, or has its bytes.
    pub(crate) fn may_request(&self, script: Sha256Digest, elf: Option<&Bytes>) -> Result<(), CompileError> {
        if elf.is_some() || self.owns(script) { Ok(()) } else { Err(CompileError::ScriptNotFound(script)) }
    }

    /// Reserves the caller's quota for a script that is new to it. Dropping the reservation before `keep`
    /// returns it.
    pub(crate) async fn reserve(&self, script: Sha256Digest, bytes: u64) -> Result<Reserved<'_>, Fault> {
        let (account, holder) = (&self.account, self.account.owner());
        let key = mark_key(holder, script);
        let is_needed = account.is_isolated() || account.quota().stored_bytes_max.is_some();
        if !is_needed || self.cache().contains(Space::Artifact, key) {
            return Ok(Reserved { compiler: self, script, bytes: 0, is_new: false });
        }
        if account.quota().stored_bytes_max.is_some() {
            loop {
                match self.shared.owned.take(holder, bytes, |has| account.stored_too_much(has, bytes)) {
                    Some(taken) => break taken?,
                    None => {
                        let cache = self.cache().clone();
                        let begun = self.shared.owned.begin_count(holder);
                        let counted = blocking(move || count(&cache, holder)).await;
                        self.shared.owned.counted(holder, begun, counted.unwrap_or(u64::MAX));
                    }
                }
            }
        }
        Ok(Reserved { compiler: self, script, bytes, is_new: true })
    }
}

/// A reservation for a script in its owner's quota.
pub(crate) struct Reserved<'a> {
    compiler: &'a Compiler,
    script: Sha256Digest,
    bytes: u64,
    /// Whether it is the caller's first upload of the script, as visible to the caller.
    pub(crate) is_new: bool,
}

impl Reserved<'_> {
    /// Marks the script, which is stored by now, as the caller's.
    pub(crate) async fn keep(mut self) {
        if !self.is_new {
            return;
        }
        let cache = self.compiler.cache().clone();
        let holder = self.compiler.account.owner();
        let (key, content) = (mark_key(holder, self.script), mark(holder, self.script, self.bytes));
        let put = blocking(move || cache.put(Space::Artifact, key, &content)).await;
        if matches!(put, Ok(Ok(Put::Stored | Put::AlreadyThere))) {
            self.compiler.shared.owned.settle(holder, self.bytes);
            self.bytes = 0;
        } else {
            tracing::warn!(script = %self.script, "whose script it is, is not stored");
        }
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.compiler.shared.owned.release(self.compiler.account.owner(), self.bytes);
    }
}
