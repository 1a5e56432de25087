//! The section `usage` as it is written.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Section `[usage]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RawUsage {
    /// Folder for what tenants used, by the hour; made if it is not there, one process at a time. Empty for
    /// none: nothing is kept then.
    pub dir: PathBuf,
    /// How long it is kept: so many times 24 hours in which something was used.
    pub keep_days: u64,
    /// Tenants of an hour that have a row; what more of them use is in one row together.
    pub tenants_max: u64,
    /// How often it is written, milliseconds. A kill loses what was used since.
    pub flush_ms: u64,
    /// Folder for files of hours that are over, CSV and JSON, minutes after their end; empty for none.
    /// Whoever takes them may remove them.
    pub export_dir: PathBuf,
}

impl Default for RawUsage {
    fn default() -> Self {
        let (dir, export_dir) = Default::default();
        Self { dir, keep_days: 90, tenants_max: 10_000, flush_ms: 30_000, export_dir }
    }
}
