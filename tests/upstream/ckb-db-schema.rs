//! Replaces the crate of this name: the tests only pass this number on.

/// Columns of the database.
pub const COLUMNS: u32 = 1;
