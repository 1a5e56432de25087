//! Explains why a script failed, for people and tools: names addresses in evidence and decodes system calls.
//!
//! ```text
//! Inputs      evidence of a run, the ELFs of its programs, tables of error codes, a source file lookup
//! diagnose    finds the location, value, branch and system call that decided
//! Diagnosis   the result, written as JSON or as short or full text
//! ```
//! No IO. ELF files and evidence are untrusted input: nothing panics, and names are bounded.

mod calls;
mod codes;
mod decide;
mod diagnose;
mod encoding;
mod faults;
mod javascript;
mod names;
pub mod report;
mod text;

pub use codes::{CodesError, ErrorCodes};
pub use diagnose::{Inputs, diagnose};
pub use encoding::DiagnosisError;
pub use faults::advice;
pub use names::CellFinder;
pub use report::Diagnosis;
