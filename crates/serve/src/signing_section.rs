//! Section `[signing]`.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use crate::{check::Checker, raw_config::RawConfig};

/// A day.
const DAY: Duration = Duration::from_secs(24 * 3_600);

/// Most days that native code may be taken.
const DAYS_MAX: u64 = 36_500;

/// Section `[signing]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RawSigning {
    /// Folder with the keys that sign native code, made with a first key if it is not there; empty for `keys` in `cache.dir`.
    pub keys: String,
    /// List of keys (`trusted.json` of that folder) whose native code a runner by itself takes; empty to take all that its compiler sends.
    pub trusted: String,
    /// How long native code is taken after it was signed, days.
    pub valid_days: u64,
}

impl Default for RawSigning {
    fn default() -> Self {
        Self { keys: String::new(), trusted: String::new(), valid_days: 365 }
    }
}

/// How native code is signed, and whose is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signing {
    /// Folder of the keys that sign.
    pub keys: PathBuf,
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
    Signing {
        keys: if raw.keys.is_empty() { config.cache.dir.join("keys") } else { Path::new(&raw.keys).into() },
        trusted: (!raw.trusted.is_empty()).then(|| PathBuf::from(&raw.trusted)),
        valid: DAY * days,
    }
}
