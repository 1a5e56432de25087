//! Scripts and libraries that are already sealed and checked.

use std::sync::Arc;

use antares_abi::{ArtifactKey, Sha256Digest};
use antares_pool::Sealed;
use antares_serve::{Account, Namespace};

use crate::{
    artifacts::quarantine::{Quarantine, Suspect},
    tenant_cache::{HotStats, TenantCache},
};

/// Key of a cached file: a script's digest or a library's artifact key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ReadyKey {
    Script(Sha256Digest),
    Library(Sha256Digest),
}

/// A library as used by a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Used {
    /// The entry to bar if it breaks a rule.
    pub(crate) suspect: Suspect,
    /// Its cache key, shared or this tenant's own.
    key: ReadyKey,
    namespace: Namespace,
}

impl Used {
    pub(crate) fn of(account: &Account, key: ArtifactKey) -> Self {
        let cached_as = ReadyKey::Library(Sha256Digest(account.salt().apply(key.0)));
        Self { suspect: Suspect::of(account, key), key: cached_as, namespace: account.namespace() }
    }
}

/// Sealed files, bounded in bytes and number.
pub(crate) struct Ready {
    files: TenantCache<ReadyKey, Arc<Sealed>>,
    /// Libraries that must not be handed out any more.
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

    pub(crate) fn clear(&self) {
        self.files.clear();
    }

    pub(crate) fn remove_library(&self, used: Used) {
        self.files.remove(used.namespace, used.key);
    }

    /// Quarantines libraries for the reason in `detail`.
    pub(crate) fn bar(&self, used: &[Used], detail: &str) {
        let suspects: Vec<_> = used.iter().map(|used| used.suspect).collect();
        self.quarantine.add(&suspects, detail);
        used.iter().for_each(|used| self.remove_library(*used));
    }

    pub(crate) fn stats(&self) -> HotStats {
        self.files.stats()
    }
}
