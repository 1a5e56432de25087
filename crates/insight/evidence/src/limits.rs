//! Every limit of evidence: name, unit, default.

/// Bytes of encoded evidence.
pub const EVIDENCE_BYTES_MAX: usize = 16 << 20;

/// System calls of a run that are kept, the last ones.
pub const SYSTEM_CALLS_MAX: usize = 4096;

/// System calls that are kept where nobody asked for more.
pub const SYSTEM_CALLS_DEFAULT: usize = 64;

/// Bytes that are kept of what a system call read or wrote.
pub const DATA_BYTES_MAX: usize = 256;

/// Arguments of an `exec` or a `spawn` that are kept.
pub const ARGUMENTS_MAX: usize = 8;

/// Calls that are kept of a stack: the outermost.
pub const STACK_OUTER_MAX: usize = 16;

/// Calls that are kept of a stack: the innermost.
pub const STACK_INNER_MAX: usize = 48;

/// Calls that are kept for the place of a value, a branch or a system call.
pub const STACK_CALLS_MAX: usize = 12;

/// Branches that are kept of a VM that has ended, before and behind what made its exit code.
pub const BRANCHES_KEPT_MAX: usize = 24;

/// Programs of a run.
pub const PROGRAMS_MAX: usize = 256;

/// VMs of a run, the last ones that ended.
pub const VMS_MAX: usize = 32;

/// Instructions that are kept, the last ones.
pub const STEPS_MAX: usize = 65_536;

/// Instructions that are kept where nobody asked for more.
pub const STEPS_DEFAULT: usize = 32;

/// Bytes of memory that are kept around the stack pointer.
pub const EXCERPT_BYTES_MAX: usize = 256;

/// Cycles before the end that are followed instruction by instruction: a quarter of a second at most.
pub const FOLLOWED_CYCLES: u64 = 5_000_000;
