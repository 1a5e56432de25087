//! Section `[audit]`.

use std::path::PathBuf;

use crate::{
    check::Checker,
    raw_config::{RawAudit, RawConfig},
};

/// What `audit.target` says for standard error.
const STDERR: &str = "stderr";

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
