//! Locks the calling process in: policy as data, seccomp, Landlock, rlimits, capabilities, the order.

mod layer;

pub use layer::{Layer, LayerParseError, LayerStatus};
