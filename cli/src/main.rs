//! The command `antares`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    antares_cli::antares()
}
