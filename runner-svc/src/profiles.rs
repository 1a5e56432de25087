//! Where the cycles of all runs were spent: kept, answered, pushed.

pub(crate) mod deltas;
pub(crate) mod entry;
pub(crate) mod push;
pub(crate) mod store;
