//! Why a script failed, for people and tools: evidence with its addresses named and its system calls decoded.
//!
//! ```text
//! Inputs      evidence of a run, the ELFs of its programs, tables of error codes, a way to source files
//! diagnose    finds the place, the value, the branch and the system call that decided
//! Diagnosis   that, to be written as JSON or as text: short, or whole
//! ```
//! No IO. ELF files and evidence may be hostile: nothing panics, and names are bounded.
#![forbid(unsafe_code)]

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
