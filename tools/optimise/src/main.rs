//! The program `antares-optimise`: the command `antares optimise`.
#![forbid(unsafe_code)]

mod command;

use std::process::ExitCode;

fn main() -> ExitCode {
    antares_cli::tool::run("optimise", command::optimise)
}
