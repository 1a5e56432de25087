//! Detects misspelt optional keys of the mock information. ckb-debugger ignores them, which changes the
//! transaction's meaning. All other unknown keys are notes.

use std::collections::BTreeMap;

use serde::{Deserialize, de::IgnoredAny};

use crate::error::{MockError, Problem};

/// Maximum changed letters of a misspelt key.
const CHANGES_MAX: usize = 2;

type Keys = BTreeMap<String, IgnoredAny>;

#[derive(Deserialize)]
struct Document {
    mock_info: Info,
}

#[derive(Deserialize)]
struct Info {
    inputs: Vec<Keys>,
    cell_deps: Vec<Keys>,
    #[serde(flatten)]
    others: Keys,
}

/// Rejects such keys in `text`, a mock transaction.
pub(crate) fn check(text: &[u8]) -> Result<(), MockError> {
    let Ok(Document { mock_info: Info { inputs, cell_deps, others } }) = serde_json::from_slice(text) else {
        return Ok(());
    };
    check_level("mock_info", &others, "extensions")?;
    for (list, cells) in [("inputs", inputs), ("cell_deps", cell_deps)] {
        for (index, keys) in cells.iter().enumerate() {
            check_level(&format!("mock_info.{list}[{index}]"), keys, "header")?;
        }
    }
    Ok(())
}

fn check_level(path: &str, keys: &Keys, meant: &'static str) -> Result<(), MockError> {
    let is_near = |key: &&String| {
        let key = key.to_ascii_lowercase();
        key.len() < 2 * meant.len() && strsim::osa_distance(&key, meant) <= CHANGES_MAX
    };
    match keys.keys().filter(|key| *key != meant).find(is_near) {
        Some(key) => Err(MockError::at(format!("{path}.{key}"), Problem::UnknownKey(meant))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_meant_for_another_key_is_reported_and_notes_are_not() {
        let said = |info: &str, input: &str| {
            let text = format!(r#"{{"mock_info": {{"inputs": [{{}}, {input}], "cell_deps": [], {info}}}}}"#);
            check(text.as_bytes()).err().map(|error| error.to_string())
        };
        for note in [r#"{"data": 1, "header": 2}"#, r#"{"note": 1, "comment": 2}"#] {
            assert_eq!(said(r#""header_deps": 1, "extensions": 2, "name": 3"#, note), None);
        }
        for key in ["headers", "Header", "heaedr", "header_"] {
            let said = said(r#""x": 1"#, &format!(r#"{{"{key}": 1}}"#)).unwrap();
            assert_eq!(said, format!("mock_info.inputs[1].{key}: is no key; `header` is one"));
        }
        assert!(said(r#""extension": 1"#, "{}").unwrap().starts_with("mock_info.extension: "));
    }
}
