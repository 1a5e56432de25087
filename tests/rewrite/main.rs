//! The rewriter: wrong files and odd ones are refused, and what is rewritten does the same for fewer cycles.
//!
//! `ANTARES_REWRITE_BLOCKS` and `ANTARES_REWRITE_PROGRAMS` say how many scripts are made; the suite takes few.
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
mod linked;
mod mistakes;
mod programs;
mod refusals;
