//! Errors in a file, with their locations.

use std::ops::Range;

use antares_transaction::template::TemplateProblem;
use toml::Spanned;

const PLACEHOLDERS: &str = "data FILE, hash FILE, code-hash CELL, pubkey-hash KEY, multisig M KEY..., \
    multisig-hash M KEY..., type-id OUTPUT and sign secp256k1 KEY";

/// An error in a transaction file.
#[derive(Debug, thiserror::Error)]
#[error("line {line}{}{field}: {problem}", if field.is_empty() { "" } else { ", " })]
pub(crate) struct DraftError {
    /// Counted from 1.
    pub(crate) line: usize,
    /// Path of the field, such as `inputs[0].lock.args`; empty for malformed TOML.
    pub(crate) field: String,
    /// The reason.
    #[source]
    pub(crate) problem: DraftProblem,
}

/// Why a field is invalid.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DraftProblem {
    /// Malformed TOML, an unknown or missing key, or a value of the wrong type.
    #[error("{0}")]
    Toml(String),
    /// Bytes that are neither digits nor placeholders.
    #[error(
        "{text:?} is no bytes: they are 0x and pairs of hexadecimal digits, or placeholders in {{{{ }}}}"
    )]
    Digits {
        /// What was found.
        text: String,
    },
    /// An unknown placeholder, or one with wrong arguments.
    #[error("{text:?} is no placeholder; there are {}", PLACEHOLDERS)]
    Placeholder {
        /// What was found.
        text: String,
    },
    /// A name that the file does not define.
    #[error("there is no {kind} {name:?}; there are: {}", known.join(", "))]
    Unknown {
        /// `cell`, `key` or `header`.
        kind: &'static str,
        /// The name.
        name: String,
        /// Names that exist.
        known: Vec<String>,
    },
    /// Two definitions of a name.
    #[error("{0:?} is defined twice")]
    Twice(String),
    /// A value of the wrong length.
    #[error("has {found} bytes, not {expected}")]
    Length {
        /// Required length, bytes.
        expected: usize,
        /// Actual length, bytes.
        found: usize,
    },
    /// A number that exceeds its field.
    #[error("{0} does not fit")]
    Number(String),
    /// An unknown form.
    #[error("{text:?} is not {forms}")]
    Form {
        /// What was found.
        text: String,
        /// Allowed forms.
        forms: &'static str,
    },
    /// Keys that exclude or require each other.
    #[error("{0}")]
    Keys(&'static str),
    /// An invalid secret key.
    #[error("is no secret key: 0 and numbers from the order of the curve are none")]
    Key,
    /// A signature that no lock reads.
    #[error("a signature belongs to the witness of its lock's first input, inputs[{first}]")]
    Signature {
        /// Index of that input.
        first: usize,
    },
    /// A signature outside of a witness.
    #[error("a signature can only be in the lock of a witness")]
    Unsigned,
    /// An unreadable file that a placeholder or a cell names.
    #[error(transparent)]
    File(#[from] TemplateProblem),
    /// A transaction beyond the limit.
    #[error("the transaction has more than {bytes_max} bytes")]
    TooLarge {
        /// Maximum number of bytes.
        bytes_max: usize,
    },
}

/// The same error, before its line is known.
#[derive(Debug)]
pub(crate) struct FieldError {
    pub(crate) span: Range<usize>,
    pub(crate) field: String,
    pub(crate) problem: DraftProblem,
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

impl<T> At<T> for Result<T, DraftProblem> {
    fn at<V>(self, value: &Spanned<V>, field: impl FnOnce() -> String) -> Result<T, FieldError> {
        self.map_err(|problem| FieldError { span: value.span(), field: field(), problem })
    }
}
