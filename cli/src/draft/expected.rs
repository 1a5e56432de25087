//! The expected verdict of a test's transaction.

use std::fmt;

use anyhow::Context as _;
use toml::Spanned;

use super::error::{At, FieldError};

/// The expected outcome of the verification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Expected {
    /// All scripts accept.
    #[default]
    Accepted,
    /// A script rejects, in any way.
    Rejected,
    /// A script exits with this code.
    Exit(i8),
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accepted => f.write_str("accepted"),
            Self::Rejected => f.write_str("rejected"),
            Self::Exit(code) => write!(f, "exit {code}"),
        }
    }
}

pub(crate) fn of(text: Option<&Spanned<String>>) -> Result<Expected, FieldError> {
    let Some(text) = text else { return Ok(Expected::default()) };
    let exit = || text.get_ref().strip_prefix("exit ")?.parse().ok().filter(|code| *code != 0);
    let expected = match text.get_ref().as_str() {
        "accepted" => Some(Expected::Accepted),
        "rejected" => Some(Expected::Rejected),
        _ => exit().map(Expected::Exit),
    };
    let forms = "accepted, rejected, or exit with a code from -128 to 127 but 0";
    let refused = || format!("{:?} is not {forms}", text.get_ref());
    expected.with_context(refused).at(text, || "expect".to_owned())
}
