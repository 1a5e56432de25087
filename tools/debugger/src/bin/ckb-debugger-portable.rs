//! The program `ckb-debugger` on ckb-vm's interpreter, in its own process: for systems without the sandbox.

use std::process::ExitCode;

use antares_debugger::{
    ckb_debugger::{Helpers, debug},
    in_process::begin,
};

fn main() -> ExitCode {
    debug(std::env::args_os(), begin, Helpers::default())
}
