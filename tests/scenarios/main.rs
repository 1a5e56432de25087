//! Both services as an operator runs them (`antares serve`), with real clients over gRPC, killed processes,
//! and hostile input.
//!
//! `cargo build --workspace` builds the binaries; without them, tests fail with a message.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

mod admission;
mod backup;
mod batches;
mod between_tenants;
mod bombs;
mod browser;
mod client;
mod cluster;
mod commands;
mod contained;
mod diagnoses;
mod disk;
mod documented;
mod drawn;
mod failing;
mod fleet;
mod hot_cells;
mod identity;
mod issuers;
mod journey;
mod kills;
mod lasting;
mod learning;
mod lies;
mod link;
mod loading;
mod metrics;
mod miscompiles;
mod neighbours;
mod network;
mod nodes;
mod operators;
mod overload;
mod packages;
mod pages;
mod profiles;
mod second_runs;
mod server;
mod signing;
mod soak;
mod surroundings;
mod tenants;
mod tiers;
mod tls;
mod traces;
mod transaction_table;
mod transactions;
mod uploads;
mod verify_sessions;
mod web;
mod wire;
