//! Section `[signing]`.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use crate::section::section;

section! {
/// Who signs native code, and whose is taken.
"signing": RawSigning {
    /// Folder with the keys that sign native code and the list of what is revoked, made with a first key if
    /// it is not there; empty for a folder beside `cache.dir`, with `-keys` behind its name.
    keys: file;
    /// List of keys (`trusted.json` of that folder) whose native code a runner by itself takes; empty to take
    /// all that its compiler sends.
    trusted: file;
}
}

/// Validity of a signature: a year.
const VALID: Duration = Duration::from_secs(365 * 24 * 3_600);

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
    /// Validity of a signature.
    pub valid: Duration,
}

impl RawSigning {
    /// `store`: the folder of the store.
    pub(crate) fn check(&self, store: &Path) -> Signing {
        let is_default = self.keys.is_empty();
        Signing {
            keys: if is_default { keys_dir(store) } else { Path::new(&self.keys).into() },
            former_keys: is_default.then(|| store.join(KEYS)),
            trusted: (!self.trusted.is_empty()).then(|| PathBuf::from(&self.trusted)),
            valid: VALID,
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
