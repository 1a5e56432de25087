//! Who runs next, and for how long a worker is leased.

pub(crate) mod adaptive_spin;
pub(crate) mod lease;
pub(crate) mod queue;
