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

/// How long native code is taken after it was signed: a year.
const VALID: Duration = Duration::from_secs(365 * 24 * 3_600);

/// The folder within the store where keys once were.
const KEYS: &str = "keys";

/// How native code is signed, and whose is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signing {
    /// Folder of the keys that sign.
    pub keys: PathBuf,
    /// Where it was by default before, within the store; none where the configuration names one.
    pub former_keys: Option<PathBuf>,
    /// List of the keys that a runner by itself trusts.
    pub trusted: Option<PathBuf>,
    /// How long a signature is taken.
    pub valid: Duration,
}

impl RawSigning {
    /// `store` is the folder of the store.
    pub(crate) fn check(&self, store: &Path) -> Signing {
        let is_default = self.keys.is_empty();
        Signing {
            keys: if is_default { beside(store) } else { Path::new(&self.keys).into() },
            former_keys: is_default.then(|| store.join(KEYS)),
            trusted: (!self.trusted.is_empty()).then(|| PathBuf::from(&self.trusted)),
            valid: VALID,
        }
    }
}

/// The folder of keys for the store `dir`: whoever restores or deletes the store leaves it alone.
fn beside(dir: &Path) -> PathBuf {
    match dir.file_name() {
        Some(name) => {
            let mut name = name.to_owned();
            name.push("-keys");
            dir.with_file_name(name)
        }
        // The root, or `..`: what is beside it is not known.
        None => dir.join(KEYS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_beside_the_store() {
        assert_eq!(beside(Path::new("/var/lib/antares/cache")), Path::new("/var/lib/antares/cache-keys"));
        assert_eq!(beside(Path::new("antares-data/")), Path::new("antares-data-keys"));
        assert_eq!(beside(Path::new("..")), Path::new("../keys"));
    }
}
