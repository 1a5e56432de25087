//! The rewriter refuses invalid and unusual files, and its output does the same in fewer cycles.
//!
//! `ANTARES_REWRITE_BLOCKS` (for each version), `ANTARES_REWRITE_PROGRAMS` and `ANTARES_REWRITE_GUESTS` set
//! the number of scripts, `ANTARES_REWRITE_FIRST` the first seed; the defaults are small.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "tests"
)]

mod blocks;
mod chance;
mod functions;
mod linked;
mod mistakes;
mod programs;
mod refusals;
mod sections;
mod zig;

use antares_abi::{CompileOptions, Isa};
use antares_optimise::{Optimised, RewriteError, Settings, optimise};

/// The machine of a version.
fn machine(vm_version: u32) -> CompileOptions {
    CompileOptions { vm_version, isa: Isa::of_version(vm_version) }
}

/// Rewrites all that the rules match, in at most `pieces_max` pieces of code.
fn rewrite(elf: &[u8], vm_version: u32, pieces_max: usize) -> Result<Optimised, RewriteError> {
    let settings = Settings { machine: machine(vm_version), runs: None, takes_all: true };
    optimise(elf, &settings, |tried, _| tried < pieces_max)
}

/// Seeds from `ANTARES_REWRITE_FIRST` on; `variable` sets their number.
fn seeds(variable: &str, few: u64) -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first = number("ANTARES_REWRITE_FIRST").unwrap_or(0);
    first..first + number(variable).unwrap_or(few)
}
