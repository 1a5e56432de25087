//! The sections `signing` and `verdict` as they are written.

use serde::{Deserialize, Serialize};

/// Section `[signing]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RawSigning {
    /// Folder with the keys that sign native code and the list of what is revoked, made with a first key if
    /// it is not there; empty for a folder beside `cache.dir`, with `-keys` behind its name.
    pub keys: String,
    /// List of keys (`trusted.json` of that folder) whose native code a runner by itself takes; empty to take
    /// all that its compiler sends.
    pub trusted: String,
    /// How long native code is taken after it was signed, days.
    pub valid_days: u64,
}

impl Default for RawSigning {
    fn default() -> Self {
        Self { keys: String::new(), trusted: String::new(), valid_days: 365 }
    }
}

/// Section `[verdict]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RawVerdict {
    /// Folder with the keys that sign verdicts of transactions, made with a first key if it is not there;
    /// empty signs none. It must be another one than that of `signing.keys`.
    pub keys: String,
}
