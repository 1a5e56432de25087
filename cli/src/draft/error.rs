//! Errors in a file, with their locations.

use std::ops::Range;

use toml::Spanned;

/// An error in a transaction file.
#[derive(Debug, thiserror::Error)]
#[error("line {line}{}{field}: {problem}", if field.is_empty() { "" } else { ", " })]
pub(crate) struct DraftError {
    /// Counted from 1.
    pub(crate) line: usize,
    /// Path of the field, such as `inputs[0].lock.args`; empty for malformed TOML.
    pub(crate) field: String,
    /// The reason.
    pub(crate) problem: anyhow::Error,
}

/// The same error, before its line is known.
#[derive(Debug)]
pub(crate) struct FieldError {
    pub(crate) span: Range<usize>,
    pub(crate) field: String,
    pub(crate) problem: anyhow::Error,
}

impl FieldError {
    pub(crate) fn locate(self, text: &str) -> DraftError {
        let before = text.get(..self.span.start).unwrap_or(text);
        DraftError { line: before.matches('\n').count() + 1, field: self.field, problem: self.problem }
    }
}

/// Adds a field's location to a problem.
pub(crate) trait At<T> {
    fn at<V>(self, value: &Spanned<V>, field: impl FnOnce() -> String) -> Result<T, FieldError>;
}

impl<T> At<T> for anyhow::Result<T> {
    fn at<V>(self, value: &Spanned<V>, field: impl FnOnce() -> String) -> Result<T, FieldError> {
        self.map_err(|problem| FieldError { span: value.span(), field: field(), problem })
    }
}
