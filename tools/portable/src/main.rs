//! The program `ckb-debugger` on ckb-vm's interpreter, in its own process: what there is on systems that have
//! neither our fence nor native code.
#![forbid(unsafe_code)]

mod here;

use std::process::ExitCode;

use antares_debugger::Helpers;

fn main() -> ExitCode {
    antares_debugger::debug(std::env::args_os(), Box::new(|| Ok(Box::new(here::Here))), Helpers::default())
}
