//! The program `antares-optimise`: the command `antares optimise`.

mod command;

use std::process::ExitCode;

fn main() -> ExitCode {
    antares_cli::tool::run("optimise", command::optimise)
}
