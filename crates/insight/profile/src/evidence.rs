//! Evidence of a failed run: where it failed, its call stacks, its last system calls, and the origin of its
//! values.
//!
//! ```text
//! Evidence   recorded by the machine in a sandboxed worker; `antares-diagnosis` adds names
//! ```
//! Evidence contains only addresses and numbers, and its size is bounded, whatever the script does. No IO.

mod encode;
pub mod limits;
pub mod records;

pub use records::Evidence;
