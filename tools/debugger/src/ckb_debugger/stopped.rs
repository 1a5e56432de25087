//! Ends of the program without a result, with ckb-debugger's exit statuses.

use std::{io, num::ParseIntError, path::Path, process};

use antares_profile_view::printable;

/// An end before a result.
#[derive(Debug)]
pub enum Ending {
    /// Status 1: a file, a number or the transaction is invalid, or Antares failed.
    Error(String),
    /// Status 101: an invalid request, for which the original panics.
    Senseless(String),
}

impl Ending {
    pub(crate) fn senseless(text: impl Into<String>) -> Self {
        Self::Senseless(text.into())
    }

    /// For `map_err`: an invalid number.
    #[expect(clippy::needless_pass_by_value, reason = "it is for `map_err`")]
    pub(crate) fn number(error: ParseIntError) -> Self {
        Self::Error(format!("{error:?}"))
    }

    /// For `map_err`: the file at `path` cannot be read or written.
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Error(format!("{error:?}\n  {}", path.display()))
    }

    /// The process that ran the script is gone.
    #[must_use]
    pub fn lost() -> Self {
        Self::Error("the process that ran the script was lost".to_owned())
    }

    /// Prints the reason and ends this process, for callers that cannot return an error.
    pub fn exit(&self) -> ! {
        process::exit(self.say().into())
    }

    /// Prints the reason, and returns the exit status.
    pub(crate) fn say(&self) -> u8 {
        let (text, status) = match self {
            Self::Error(text) => (text, 1),
            Self::Senseless(text) => (text, 101),
        };
        eprintln!("Error: {}", printable(text));
        status
    }
}
