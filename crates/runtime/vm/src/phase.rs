//! How far a machine is, and how native code waits.

use crate::limits::{STAY_CYCLES_MIN, STAYS_MIN};

/// How far a machine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Its code is not known yet.
    New,
    /// Native code and the interpreter take turns.
    Mixed,
    /// ckb-vm's own loop runs it to the end.
    Interpreted,
    /// ckb-vm's own loop runs it until it waits again.
    Short,
}

/// How often native code was entered, and for how many cycles.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stays {
    pub(crate) count: u64,
    pub(crate) cycles: u64,
}

impl Stays {
    /// Whether a script spends its time between the tiers, as one may that was written to.
    pub(crate) fn are_too_short(self) -> bool {
        self.count >= STAYS_MIN && self.cycles / self.count < STAY_CYCLES_MIN
    }
}

/// Native code that waits on the stack, and the state that it waits with.
pub(crate) enum Waiting {
    /// In a syscall; somebody else may have run the machine meanwhile, if it differs in more than the result.
    Syscall { registers: Box<[u64; 32]>, pc: u64 },
    /// Anywhere; what the machine's registers say is not true.
    Pause,
}
