//! Reads a script and reports on it. ELF files may be hostile: nothing panics. No IO.
//!
//! ```text
//! insights   what could take fewer cycles
//! size       what takes the bytes, and the same script in fewer
//! ```
#![forbid(unsafe_code)]

pub mod insights;
pub mod size;
