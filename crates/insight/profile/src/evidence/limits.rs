//! Limits of evidence, with units and defaults.

/// Maximum bytes of encoded evidence.
pub const EVIDENCE_BYTES_MAX: usize = 16 << 20;

/// Maximum system calls recorded per run; the last ones are retained.
pub const SYSTEM_CALLS_MAX: usize = 4096;

/// System calls recorded by default.
pub const SYSTEM_CALLS_DEFAULT: usize = 64;

/// Maximum bytes recorded of the data of a system call.
pub const DATA_BYTES_MAX: usize = 256;

/// Maximum arguments recorded of an `exec` or a `spawn`.
pub const ARGUMENTS_MAX: usize = 8;

/// Outermost calls recorded of a stack.
pub const STACK_OUTER_MAX: usize = 16;

/// Innermost calls recorded of a stack.
pub const STACK_INNER_MAX: usize = 48;

/// Calls recorded for the origin of a value, a branch or a system call.
pub const STACK_CALLS_MAX: usize = 12;

/// Maximum branches of an ended VM, before and after the instruction that computed its exit code.
pub const RECORDED_BRANCHES_MAX: usize = 24;

/// Maximum programs of a run.
pub const PROGRAMS_MAX: usize = 256;

/// Maximum VMs recorded per run; the last ones to end are retained.
pub const VMS_MAX: usize = 32;

/// Maximum instructions recorded; the last ones are retained.
pub const STEPS_MAX: usize = 65_536;

/// Instructions recorded by default.
pub const STEPS_DEFAULT: usize = 32;

/// Maximum bytes of memory recorded around the stack pointer.
pub const EXCERPT_BYTES_MAX: usize = 256;

/// Cycles before the end that are traced instruction by instruction: at most a quarter of a second.
pub const FOLLOWED_CYCLES: u64 = 5_000_000;
