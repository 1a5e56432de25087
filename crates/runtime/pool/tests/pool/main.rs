//! The pool with hostile and lying workers, which `cargo test` builds as examples.
#![allow(unsafe_code, clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

mod artifact;
mod control_groups;
mod degraded;
mod escapes;
mod hostile;
mod kernel;
mod layers;
mod liars;
mod life;
mod processes;
mod renewal;
mod reuse;
mod storm;
