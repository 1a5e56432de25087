//! Limits of a verification: name, unit, default.

/// Lines of debug output of all groups together, whatever their length; the limit in bytes is a matter of each call.
pub const DEBUG_LINES_MAX: usize = 65_536;

/// Bytes of the text that details an error. A script decides part of that text.
pub const DETAIL_BYTES_MAX: usize = 4096;
