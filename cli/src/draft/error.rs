//! What is wrong with a file, and where.

use std::ops::Range;

use antares_transaction::template::TemplateProblem;
use toml::Spanned;

const PLACEHOLDERS: &str = "data FILE, hash FILE, code-hash CELL, pubkey-hash KEY, multisig M KEY..., \
    multisig-hash M KEY..., type-id OUTPUT and sign secp256k1 KEY";

/// A file that describes no transaction.
#[derive(Debug, thiserror::Error)]
#[error("line {line}{}{field}: {problem}", if field.is_empty() { "" } else { ", " })]
pub(crate) struct DraftError {
    /// Counted from 1.
    pub(crate) line: usize,
    /// Path of the field, such as `inputs[0].lock.args`; empty for what is no TOML.
    pub(crate) field: String,
    /// The reason.
    #[source]
    pub(crate) problem: DraftProblem,
}

/// Why a field cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DraftProblem {
    /// Malformed TOML, an unknown or a missing key, a value of another type.
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
    /// A placeholder that does not exist, or has other arguments.
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
        /// Bytes that are required.
        expected: usize,
        /// Bytes that were found.
        found: usize,
    },
    /// A number beyond what its field can hold.
    #[error("{0} does not fit")]
    Number(String),
    /// Another form.
    #[error("{text:?} is not {forms}")]
    Form {
        /// What was found.
        text: String,
        /// What is possible.
        forms: &'static str,
    },
    /// Keys that exclude or require each other.
    #[error("{0}")]
    Keys(&'static str),
    /// A key that is no secret key of the curve.
    #[error("is no secret key: 0 and numbers from the order of the curve are none")]
    Key,
    /// A signature where no lock reads one.
    #[error("a signature belongs to the witness of its lock's first input, inputs[{first}]")]
    Signature {
        /// Index of that input.
        first: usize,
    },
    /// A signature outside of a witness.
    #[error("a signature can only be in the lock of a witness")]
    Unsigned,
    /// A file that a placeholder or a cell names.
    #[error(transparent)]
    File(#[from] TemplateProblem),
    /// A transaction beyond the limit.
    #[error("the transaction has more than {bytes_max} bytes")]
    TooLarge {
        /// Maximum number of bytes.
        bytes_max: usize,
    },
}

/// The same, before lines are counted.
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

/// Puts a field's place to a problem.
pub(crate) trait At<T> {
    fn at<V>(self, value: &Spanned<V>, field: impl FnOnce() -> String) -> Result<T, FieldError>;
}

impl<T> At<T> for Result<T, DraftProblem> {
    fn at<V>(self, value: &Spanned<V>, field: impl FnOnce() -> String) -> Result<T, FieldError> {
        self.map_err(|problem| FieldError { span: value.span(), field: field(), problem })
    }
}
