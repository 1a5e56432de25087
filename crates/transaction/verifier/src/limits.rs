//! Limits of a verification, each with a unit.

/// Maximum bytes of an error's detail text. A script controls part of that text.
pub const DETAIL_BYTES_MAX: usize = 4096;

/// Cycles that ckb-script charges for suspending a VM, and again for resuming it (its
/// `SPAWN_EXTRA_CYCLES_BASE`). They are not charged to any VM.
pub const SWITCH_CYCLES: u64 = 100_000;
