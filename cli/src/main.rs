//! The command `antares`.

use std::process::ExitCode;

fn main() -> ExitCode {
    antares_cli::antares()
}
