//! What the kernel can do, asked of the kernel itself.

/// Whether it can seal memory (Linux 6.10).
pub(crate) fn can_seal() -> bool {
    // SAFETY: an empty range is sealed by doing nothing.
    unsafe { libc::syscall(libc::SYS_mseal, 0, 0, 0) == 0 }
}
