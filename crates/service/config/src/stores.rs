//! Sections `[cache]`, `[shared]` and `[signing]`: the stores of native code and trust in them.

use std::path::{Path, PathBuf};

use antares_abi::LIBRARY_BYTES_MAX;

use crate::{
    check::Checker,
    section::{GIB, MIB, section},
};

section! {
/// The store of scripts and artifacts (compiler).
"cache": RawCache => StoreConfig {
    /// Directory; created if absent. Only one process can use it.
    dir: folder = "antares-data".into();
    /// Disk space for entries. Each stored byte takes three, so a third of it is usable. The volume needs
    /// twice this, and 512 MiB for uploads.
    budget_bytes: at_least(MIB) = 2 * GIB;
    /// Free bytes of the file system under which nothing more is stored.
    fixed free_bytes_min: whole = 64 * MIB;
    /// Accept network, FUSE and overlay file systems, whose locks and syncs cannot be relied on.
    allow_any_filesystem: flag;
}
}

impl StoreConfig {
    /// Maximum length of a stored artifact or script, in bytes: that of the largest library, or the whole
    /// budget of a small store.
    pub fn entry_bytes_max(&self) -> u64 {
        LIBRARY_BYTES_MAX.min(self.budget_bytes)
    }
}

section! {
/// The object store shared by several servers (compiler).
"shared": RawShared => SharedTier(
    /// Whether writers of the store are trusted: without `signing.keys` there are no trusted signatures.
    trusts_writers: bool,
) {
    /// Object store shared by several servers: `s3://bucket/prefix`, `gs://` or `az://`; empty for none.
    url: text;
    /// Timeout of a read. After it, the server compiles the script itself.
    get_ms_max as get_time_max: time = 1_000;
}
}

/// Supported schemes of the URL.
const KINDS: [&str; 3] = ["s3://", "gs://", "az://"];

impl RawShared {
    /// `None` without a shared tier.
    pub(crate) fn section(&self, trusts_writers: bool, checker: &mut Checker) -> Option<SharedTier> {
        let tier = self.check(checker, trusts_writers);
        if self.url.is_empty() {
            return None;
        }
        if !KINDS.iter().any(|kind| self.url.strip_prefix(kind).is_some_and(|rest| !rest.is_empty())) {
            let problem = format!(
                "must be s3://bucket/prefix, gs://bucket/prefix or az://container/prefix, is {:?}",
                self.url
            );
            checker.record("shared.url", problem);
        }
        Some(tier)
    }
}

section! {
/// Signing of native code.
"signing": RawSigning {
    /// Folder with the signing keys and the revocation list; created with a first key if absent. Empty for
    /// the folder next to `cache.dir` whose name ends with `-keys`.
    keys: file;
    /// List of keys (`trusted.json` of that folder) that a split runner trusts; empty to trust its compiler
    /// without signatures.
    trusted: file;
}
}

/// Former folder of the keys, within the store.
const KEYS: &str = "keys";

/// Signing and verification of native code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signing {
    /// Folder of the signing keys.
    pub keys: PathBuf,
    /// Former default folder, within the store; `None` if the configuration names a folder.
    pub former_keys: Option<PathBuf>,
    /// List of the keys that a separate runner trusts.
    pub trusted: Option<PathBuf>,
}

impl RawSigning {
    /// `store`: the folder of the store.
    pub(crate) fn check(&self, store: &Path) -> Signing {
        let is_default = self.keys.is_empty();
        Signing {
            keys: if is_default { keys_dir(store) } else { Path::new(&self.keys).into() },
            former_keys: is_default.then(|| store.join(KEYS)),
            trusted: (!self.trusted.is_empty()).then(|| PathBuf::from(&self.trusted)),
        }
    }
}

/// The folder of keys next to the store `dir`, so that restoring or deleting the store does not affect it.
fn keys_dir(dir: &Path) -> PathBuf {
    match dir.file_name() {
        Some(name) => {
            let mut name = name.to_owned();
            name.push("-keys");
            dir.with_file_name(name)
        }
        // The root, or `..`: its siblings are unknown.
        None => dir.join(KEYS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_beside_the_store() {
        assert_eq!(keys_dir(Path::new("/var/lib/antares/cache")), Path::new("/var/lib/antares/cache-keys"));
        assert_eq!(keys_dir(Path::new("antares-data/")), Path::new("antares-data-keys"));
        assert_eq!(keys_dir(Path::new("..")), Path::new("../keys"));
    }
}
