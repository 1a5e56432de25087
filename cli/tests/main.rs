//! The contract of docs/cli.md, with the real command and real workers (`cargo build --workspace` builds them;
//! `make test` does so first).
#![allow(clippy::unwrap_used, reason = "tests")]

mod authors;
mod background_compile;
mod code_cache;
mod command;
mod contract;
mod coverage;
mod diagnosis;
mod early_bailouts;
mod elf;
mod external;
mod first_script;
mod javascript;
mod mistakes;
mod page;
#[cfg(feature = "server")]
mod replay;
mod size;
mod snapshot;
mod story;
mod verify;
