//! Limits of a verification: name, unit, default.

/// Lines of debug output of all groups together, whatever their length; the limit in bytes is a matter of
/// each call.
pub const DEBUG_LINES_MAX: usize = 65_536;

/// Bytes of the text that details an error. A script decides part of that text.
pub const DETAIL_BYTES_MAX: usize = 4096;

/// Cycles that ckb-script takes for putting a VM aside, and again for bringing it back (its
/// `SPAWN_EXTRA_CYCLES_BASE`). No VM is charged with them.
pub const SWITCH_CYCLES: u64 = 100_000;
