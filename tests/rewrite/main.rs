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

/// Seeds from `ANTARES_REWRITE_FIRST` on; `variable` sets their number.
fn seeds(variable: &str, few: u64) -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first = number("ANTARES_REWRITE_FIRST").unwrap_or(0);
    first..first + number(variable).unwrap_or(few)
}
