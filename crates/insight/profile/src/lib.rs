//! Profiles of guests in cycles: data model, symbols, and the formats that other tools read.
//!
//! ```text
//! Profile   stacks of guest addresses with the cycles that were spent there; adds up to the cycles of its runs
//! ```
//! A profile knows addresses only. It is small, it can be merged, and equal runs give equal profiles, bit for
//! bit. No IO.
#![forbid(unsafe_code)]

mod canonical;
mod encode;
mod fold;
mod frame;
pub mod limits;
mod profile;

pub use encode::ProfileError;
pub use frame::{Frame, ProfiledProgram, syscall_name};
pub use profile::{Node, NodeId, Profile, ProgramId, Value};
