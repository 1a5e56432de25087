//! The section `audit` as it is written.

use serde::{Deserialize, Serialize};

/// Section `[audit]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RawAudit {
    /// File for a line of JSON for each call that needs a role; `stderr` for standard error; empty for none.
    pub target: String,
    /// Whether calls are refused while their lines cannot be written.
    pub required: bool,
}
