//! Queries features of the kernel.

/// Whether it can seal memory (Linux 6.10).
pub(crate) fn can_seal() -> bool {
    // SAFETY: sealing an empty range has no effect.
    unsafe { libc::syscall(libc::SYS_mseal, 0, 0, 0) == 0 }
}
