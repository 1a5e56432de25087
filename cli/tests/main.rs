//! The contract of docs/cli.md, with the real command and real workers (`cargo build --workspace` builds them;
//! `make test` does so first).
#![allow(clippy::unwrap_used, reason = "tests")]
#![forbid(unsafe_code)]

mod authors;
mod command;
mod contract;
mod coverage;
mod diagnosis;
mod early;
mod elf;
mod external;
mod first_script;
mod javascript;
mod kept;
mod meanwhile;
#[cfg(feature = "server")]
mod metrics;
mod mistakes;
mod page;
#[cfg(feature = "server")]
mod replay;
#[cfg(feature = "server")]
mod serve;
mod size;
mod snapshot;
mod story;
mod verify;
