//! The size of a script, by section, function and file; and a smaller ELF of the same script.
//!
//! ```text
//! Sizes::of   where the bytes of an ELF are
//! shrink      a smaller ELF with the same memory image, verified by comparison
//! ```
//! No IO. ELF files are untrusted input: nothing panics.

mod shrink;
mod sizes;

pub use shrink::{ShrinkError, Shrunk, shrink};
pub use sizes::{Part, Sizes};
