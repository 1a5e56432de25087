//! The program `antares-debug`: the command `antares debug`, and the sandboxed process that it starts.

use std::process::ExitCode;

use antares_debugger::{command, worker};

fn main() -> ExitCode {
    if antares_pool::is_hosted() { worker::serve() } else { antares_cli::tool::run("debug", command::debug) }
}
