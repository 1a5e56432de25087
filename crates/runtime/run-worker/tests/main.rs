//! Jobs in sandboxed children: their results, what a reused child retains, and the spare child.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

mod batches;
mod jailed;
mod jobs;
mod memory;
mod short;
mod spare;
mod transactions;
mod warm;
mod warm_transactions;
