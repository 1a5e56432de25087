//! What crosses crates: guests, filetests, differential, conformance, escapes, scenarios.
//!
//! This library holds what those tests share; the tests themselves stand in the folders of their names.
#![forbid(unsafe_code)]

pub mod asm;
pub mod elf;
pub mod generate;
pub mod guests;
pub mod oracle;
