//! Real programs in both tiers, compared with ckb-vm's `AsmMachine`: our guests, attacks, published scripts.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::cast_possible_truncation, reason = "tests")]

mod attacks;
mod check;
mod compiles;
mod contract;
mod corpus;
mod decided;
mod diagnoses;
mod formats;
mod insights;
mod learning;
mod loading;
mod locks;
mod pauses;
mod profiles;
mod programs;
mod published;
mod recovered;
mod sampled;
mod sampled_transactions;
mod shapes;
mod smaller;
mod transaction_campaign;
mod transactions;
mod verdicts;
