//! Tests across crates: guests, filetests, differential, conformance, escapes, scenarios.
//!
//! This library contains their shared code; the tests are in the folders of these names.
#![allow(clippy::cast_possible_truncation, reason = "only built where usize is 64 bits")]

pub use antares_guests::{self as guests, crates};

pub mod asm;
pub mod authorities;
pub mod corpus;
pub mod differential;
pub mod elf;
pub mod fuzzing;
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "random bits are cut to the width of a field"
)]
pub mod generate;
pub mod kept;
pub mod locks;
pub mod native;
pub mod oracle;
pub mod s3;
pub mod shapes;
pub mod stopwatch;
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "random bits are cut to the width of a field"
)]
pub mod transaction_campaign;
pub mod transactions;
