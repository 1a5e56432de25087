//! Native work done again in the interpreter, and compared.

pub(crate) mod comparison;
pub(crate) mod second;
