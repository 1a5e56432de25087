//! The baseline generator on IR made by hand, against a model: every operation in every shape of operands, and
//! each way in which a block can end. Blocks that need more registers than there are come in the differential
//! tests.
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "tests; the model cuts numbers on purpose"
)]
#![forbid(unsafe_code)]

mod control;
mod harness;
mod model;
mod operations;
