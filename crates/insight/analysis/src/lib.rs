//! Reads a script and reports on it. ELF files are untrusted input: nothing panics. No IO.
//!
//! ```text
//! insights   code that could take fewer cycles
//! size       which parts take the bytes, and a smaller ELF of the same script
//! ```

pub mod insights;
pub mod size;
