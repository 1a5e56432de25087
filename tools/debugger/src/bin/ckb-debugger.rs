//! The program `ckb-debugger`. The workers are next to it, and so is `antares`, for compiles that outlive it.

use std::process::ExitCode;

fn main() -> ExitCode {
    antares_debugger::sandboxed::ckb_debugger()
}
