//! Scripts and libraries that are sealed and checked already.

use std::sync::Arc;

use antares_abi::{ArtifactKey, Sha256Digest};
use antares_pool::Sealed;
use antares_serve::{Account, Namespace};

use crate::{
    artifacts::quarantine::{Quarantine, Suspect},
    tenant_cache::{HotStats, TenantCache},
};

/// What is kept: a script by its digest, a library by its artifact key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ReadyKey {
    Script(Sha256Digest),
    Library(Sha256Digest),
}

/// A library as a tenant uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Used {
    /// What it is if it breaks a rule.
    pub(crate) suspect: Suspect,
    /// What it is cached as, for all or for this tenant.
    key: ReadyKey,
    namespace: Namespace,
}

impl Used {
    pub(crate) fn of(account: &Account, key: ArtifactKey) -> Self {
        let cached_as = ReadyKey::Library(Sha256Digest(account.salt().apply(key.0)));
        Self { suspect: Suspect::of(account, key), key: cached_as, namespace: account.namespace() }
    }
}

/// Sealed files, at most so many bytes and so many files.
pub(crate) struct Ready {
    files: TenantCache<ReadyKey, Arc<Sealed>>,
    /// Libraries that are not to be handed out any more.
    pub(crate) quarantine: Quarantine,
}

impl Ready {
    pub(crate) fn new(bytes_max: u64, entries_max: u64) -> Self {
        Self { files: TenantCache::new(bytes_max, entries_max), quarantine: Quarantine::default() }
    }

    pub(crate) fn script(&self, account: &Account, digest: Sha256Digest) -> Option<Arc<Sealed>> {
        self.files.get(account.namespace(), ReadyKey::Script(digest))
    }

    pub(crate) fn put_script(&self, account: &Account, digest: Sha256Digest, elf: &Arc<Sealed>) {
        self.files.put(account.namespace(), ReadyKey::Script(digest), elf.clone());
    }

    pub(crate) fn library(&self, used: Used) -> Option<Arc<Sealed>> {
        self.files.get(used.namespace, used.key)
    }

    pub(crate) fn put_library(&self, used: Used, library: &Arc<Sealed>) {
        self.files.put(used.namespace, used.key, library.clone());
    }

    /// Forgets everything.
    pub(crate) fn clear(&self) {
        self.files.clear();
    }

    pub(crate) fn remove_library(&self, used: Used) {
        self.files.remove(used.namespace, used.key);
    }

    /// Puts libraries into quarantine, because of what `detail` says.
    pub(crate) fn bar(&self, used: &[Used], detail: &str) {
        let suspects: Vec<_> = used.iter().map(|used| used.suspect).collect();
        self.quarantine.add(&suspects, detail);
        used.iter().for_each(|used| self.remove_library(*used));
    }

    pub(crate) fn stats(&self) -> HotStats {
        self.files.stats()
    }
}
