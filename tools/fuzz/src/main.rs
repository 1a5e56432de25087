//! The program `antares-fuzz`: the command `antares fuzz`, and its sandboxed processes.

mod command;
mod worker;

use std::process::ExitCode;

fn main() -> ExitCode {
    if antares_pool::is_standalone() {
        worker::serve()
    } else {
        antares_cli::tool::run("fuzz", command::fuzz)
    }
}
