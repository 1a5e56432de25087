//! What takes the bytes of a script: by section, function and file; and the same script in fewer bytes.
//!
//! ```text
//! Sizes::of   where the bytes of an ELF are
//! shrink      the same memory from fewer bytes; compared, not believed
//! ```
//! No IO. ELF files may be hostile: nothing panics.

mod shrink;
mod sizes;

pub use shrink::{ShrinkError, Shrunk, shrink};
pub use sizes::{Part, Sizes};
