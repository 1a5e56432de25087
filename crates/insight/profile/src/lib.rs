//! Records of runs: profiles in cycles, and evidence of failures.
//!
//! ```text
//! Profile    stacks of guest addresses with the cycles that were spent there; adds up to the cycles of its runs
//! Evidence   where a failed run was, who called it, its last system calls, the origin of its values
//! ```
//! A profile knows addresses only. It is small, it can be merged, and equal runs give equal profiles, bit for
//! bit. No IO.
#![forbid(unsafe_code)]

mod canonical;
mod encode;
pub mod evidence;
mod fold;
mod frame;
pub mod limits;
mod profile;

pub use encode::ProfileError;
pub use frame::{Frame, ProfiledProgram, syscall_name};
pub use profile::{Node, NodeId, Profile, ProgramId, Value};
