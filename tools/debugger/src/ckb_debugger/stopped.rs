//! Why the program ends without a result, and the status that ckb-debugger has for it.

use std::{
    io,
    num::ParseIntError,
    path::Path,
    process::{self, ExitCode},
};

use antares_profile_view::printable;

/// An end before a result.
#[derive(Debug)]
pub enum Ending {
    /// Status 1: a file, a number or the transaction is of no use; or Antares failed.
    Error(String),
    /// Status 101: what is asked for makes no sense, at which the original panics.
    Senseless(String),
}

impl Ending {
    pub(crate) fn senseless(text: impl Into<String>) -> Self {
        Self::Senseless(text.into())
    }

    /// For `map_err`: what should be a number is none.
    #[expect(clippy::needless_pass_by_value, reason = "it is for `map_err`")]
    pub(crate) fn number(error: ParseIntError) -> Self {
        Self::Error(format!("{error:?}"))
    }

    /// For `map_err`: the file at `path` cannot be read or written.
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Error(format!("{error:?}\n  {}", path.display()))
    }

    /// What ran the script is gone.
    #[must_use]
    pub fn lost() -> Self {
        Self::Error("the process that ran the script was lost".to_owned())
    }

    /// Tells it, and ends this process, for who cannot do otherwise.
    pub fn exit(&self) -> ! {
        process::exit(self.say().into())
    }

    pub(crate) fn print(&self) -> ExitCode {
        ExitCode::from(self.say())
    }

    fn say(&self) -> u8 {
        let (text, status) = match self {
            Self::Error(text) => (text, 1),
            Self::Senseless(text) => (text, 101),
        };
        eprintln!("Error: {}", printable(text));
        status
    }
}
