//! Detects misspelt optional keys of the mock information. ckb-debugger ignores them, which changes the
//! transaction's meaning. All other unknown keys are notes.

use serde_ignored::Path;

use crate::error::{MockError, Problem};

/// Maximum changed letters of a misspelt key.
const CHANGES_MAX: usize = 2;

/// The error if the unknown key at `path` is such a key.
pub(crate) fn misspelt(path: &Path<'_>) -> Option<MockError> {
    let Path::Map { parent, key } = path else { return None };
    let (parent, meant) = match parent {
        Path::Seq { parent, index } => match parent.to_string() {
            list if ["mock_info.inputs", "mock_info.cell_deps"].contains(&&*list) => {
                (format!("{list}[{index}]"), "header")
            }
            _ => return None,
        },
        _ => (parent.to_string(), "extensions"),
    };
    let is_known_parent = meant == "header" || parent == "mock_info";
    (is_known_parent && is_near(&key.to_ascii_lowercase(), meant))
        .then(|| MockError::at(format!("{parent}.{key}"), Problem::UnknownKey(meant)))
}

fn is_near(key: &str, meant: &str) -> bool {
    key.len() < 2 * meant.len() && strsim::osa_distance(key, meant) <= CHANGES_MAX
}
