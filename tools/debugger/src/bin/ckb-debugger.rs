//! The program `ckb-debugger`. The workers are next to it, and so is `antares`, for compiles that outlive it.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    antares_debugger::sandboxed::ckb_debugger()
}
