//! The baseline generator on handmade IR, against a model: every operation in every shape of operands, and
//! each terminator. The differential tests cover blocks that need more registers than exist.
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "tests; the model cuts numbers on purpose"
)]

mod control;
mod harness;
mod model;
mod operations;
