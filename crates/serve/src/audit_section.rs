//! Section `[audit]`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{check::Checker, raw_config::RawConfig};

/// What `audit.target` says for standard error.
const STDERR: &str = "stderr";

/// Section `[audit]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RawAudit {
    /// File for a line of JSON for each call that needs a role; `stderr` for standard error; empty for none.
    pub target: String,
    /// Whether calls are refused while their lines cannot be written.
    pub required: bool,
}

/// Where the audit log goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// A file, or none in it for standard error; none for no log.
    pub(crate) target: Option<Option<PathBuf>>,
    /// Whether calls are refused while it cannot be written.
    pub(crate) is_required: bool,
}

pub(crate) fn check_audit(config: &RawConfig, checker: &mut Checker) -> Audit {
    let RawAudit { target, required } = &config.audit;
    if *required && target.is_empty() {
        checker.note("audit.required", "makes no sense without audit.target".to_owned());
    }
    let target = match target.as_str() {
        "" => None,
        STDERR => Some(None),
        path => Some(Some(PathBuf::from(path))),
    };
    Audit { target, is_required: *required }
}
