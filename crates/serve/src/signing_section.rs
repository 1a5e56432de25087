//! Sections `[signing]` and `[verdict]`.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{check::Checker, raw_config::RawConfig};

/// A day.
const DAY: Duration = Duration::from_secs(24 * 3_600);

/// Most days that native code may be taken.
const DAYS_MAX: u64 = 36_500;

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

pub(crate) fn check_signing(config: &RawConfig, checker: &mut Checker) -> Signing {
    let raw = &config.signing;
    if !(1..=DAYS_MAX).contains(&raw.valid_days) {
        checker.note("signing.valid_days", format!("must be 1 to {DAYS_MAX}, is {}", raw.valid_days));
    }
    let days = u32::try_from(raw.valid_days.min(DAYS_MAX)).unwrap_or(1);
    let is_default = raw.keys.is_empty();
    Signing {
        keys: if is_default { beside(&config.cache.dir) } else { Path::new(&raw.keys).into() },
        former_keys: is_default.then(|| config.cache.dir.join(KEYS)),
        trusted: (!raw.trusted.is_empty()).then(|| PathBuf::from(&raw.trusted)),
        valid: DAY * days,
    }
}

/// Folder of the keys that sign verdicts, if any do.
pub(crate) fn check_verdict(config: &RawConfig, signing: &Signing, checker: &mut Checker) -> Option<PathBuf> {
    let folder = (!config.verdict.keys.is_empty()).then(|| PathBuf::from(&config.verdict.keys))?;
    if folder == signing.keys {
        checker.note("verdict.keys", "is the folder of the keys that sign native code".to_owned());
    }
    Some(folder)
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
