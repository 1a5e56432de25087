//! The rewriter: wrong files and odd ones are refused, and what is rewritten does the same for fewer cycles.
//!
//! `ANTARES_REWRITE_BLOCKS` (for each version), `ANTARES_REWRITE_PROGRAMS` and `ANTARES_REWRITE_GUESTS` say how
//! many scripts are rewritten, `ANTARES_REWRITE_FIRST` from which on; the suite takes few.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "tests"
)]
#![forbid(unsafe_code)]

mod blocks;
mod chance;
mod functions;
mod linked;
mod mistakes;
mod programs;
mod refusals;
mod sections;
mod zig;

/// Seeds: how many `variable` says, from `ANTARES_REWRITE_FIRST` on.
fn seeds(variable: &str, few: u64) -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first = number("ANTARES_REWRITE_FIRST").unwrap_or(0);
    first..first + number(variable).unwrap_or(few)
}
