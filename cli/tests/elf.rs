//! Scripts of a few instructions.

pub(crate) use antares_chain::{elf as of, exits};
