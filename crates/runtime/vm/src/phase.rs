//! The phases of a machine, and the ways in which native code waits.

use crate::limits::{STAY_CYCLES_MIN, STAYS_MIN};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Its code is not identified yet.
    New,
    /// Native code and the interpreter alternate.
    Mixed,
    /// ckb-vm's own loop runs it to the end.
    Interpreted,
    /// ckb-vm's own loop runs it until its next wait.
    Short,
}

/// Number of entries into native code (stays), and their cycles.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stays {
    pub(crate) count: u64,
    pub(crate) cycles: u64,
}

impl Stays {
    /// Whether a script spends its time switching tiers, as an adversarial script may.
    pub(crate) fn are_too_short(self) -> bool {
        self.count >= STAYS_MIN && self.cycles / self.count < STAY_CYCLES_MIN
    }
}

/// Waiting native code, and the state to compare on resumption.
pub(crate) enum Waiting {
    /// In a syscall. If more than the result differs on resumption, the interpreter ran the machine in
    /// between.
    Syscall { registers: Box<[u64; 32]>, pc: u64 },
    /// At any location; the machine's registers are stale.
    Pause,
}
