//! Section `[audit]`.

use std::path::PathBuf;

use crate::{check::Checker, section::section};

section! {
/// The log of who did what.
"audit": RawAudit {
    /// File for a line of JSON for each call that needs a role; `stderr` for standard error; empty for none.
    target: text;
    /// Whether calls are refused while their lines cannot be written.
    required: flag;
}
}

/// Value of `audit.target` for standard error.
const STDERR: &str = "stderr";

/// Target of the audit log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// A file, or `Some(None)` for standard error; `None` for no log.
    pub target: Option<Option<PathBuf>>,
    /// Whether calls are refused while the log cannot be written.
    pub is_required: bool,
}

impl RawAudit {
    pub(crate) fn check(&self, checker: &mut Checker) -> Audit {
        if self.required && self.target.is_empty() {
            checker.record("audit.required", "makes no sense without audit.target");
        }
        let target = match self.target.as_str() {
            "" => None,
            STDERR => Some(None),
            path => Some(Some(PathBuf::from(path))),
        };
        Audit { target, is_required: self.required }
    }
}
