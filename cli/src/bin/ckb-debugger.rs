//! The program `ckb-debugger` as a file of its own. The workers are beside it, and the program `antares` for
//! compiles that outlive it.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    antares_cli::ckb_debugger()
}
