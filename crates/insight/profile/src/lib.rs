//! Records of runs: profiles in cycles, and evidence of failures.
//!
//! ```text
//! Profile    stacks of guest addresses with the cycles spent there; adds up to the cycles of its runs
//! Evidence   where a run failed, its call stacks, its last system calls, the origin of its values
//! ```
//! A profile contains only addresses. It is small and mergeable, and equal runs have bit-identical profiles.
//! No IO.

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
