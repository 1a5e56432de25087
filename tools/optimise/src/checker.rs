//! The trusted part: a rewritten script is correct if these files are. Reviewers read only these.
//!
//! [`linked`] and [`relocation`] read the linker's records. [`code`] finds pieces of code that control enters
//! only at their start, and [`state`] executes two of them symbolically. [`cycles`] computes costs with
//! ckb-vm's decoder, and [`compare`] compares two finished files, independent of how the new one was made.
//!
//! The invariant: whenever control is at the start of a piece, both scripts have equal memory and registers.
//! Registers may differ only if every path overwrites them before anything reads them or control leaves the
//! function.

pub(crate) mod code;
pub(crate) mod compare;
mod cycles;
pub(crate) mod difference;
mod linked;
mod relocation;
pub(crate) mod state;
