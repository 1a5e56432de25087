//! How far the machines of a session run until they pause.

use std::sync::atomic::{AtomicU64, Ordering};

use ckb_vm::{DefaultMachine, Error, SupportMachine};

use crate::{MachineSession, limits::PAUSE_CYCLES_MIN, memory::Core};

/// Cycles that machines have until they are to pause.
#[derive(Debug)]
pub(crate) struct Budget(AtomicU64);

/// No pause.
impl Default for Budget {
    fn default() -> Self {
        Self(AtomicU64::new(u64::MAX))
    }
}

impl Budget {
    /// Cycles of a machine that is at `cycles`, at which it is to pause.
    pub(crate) fn end(&self, cycles: u64) -> u64 {
        cycles.saturating_add(self.0.load(Ordering::Relaxed))
    }

    /// Notes that a machine has used `cycles`.
    pub(crate) fn spend(&self, cycles: u64) {
        let left = self.0.load(Ordering::Relaxed);
        if left != u64::MAX {
            self.0.store(left.saturating_sub(cycles), Ordering::Relaxed);
        }
    }
}

impl MachineSession {
    /// Has machines pause after `cycles` of them all, or a little later: with [`Error::Pause`], as if
    /// somebody had asked for it. Run again, they go on where they were; for that it takes another call of
    /// this. At least [`PAUSE_CYCLES_MIN`], so that each time something is done.
    pub fn set_pause_after(&self, cycles: u64) {
        self.budget.0.store(cycles.max(PAUSE_CYCLES_MIN), Ordering::Relaxed);
    }
}

/// Lets `vm` go no further than `end`, for an interpreter: it stops in front of what it has no cycles for.
/// Gives the limit that it had.
pub(crate) fn lower_limit(vm: &mut DefaultMachine<Core>, end: u64) -> Option<u64> {
    let limit = vm.max_cycles();
    (end < limit).then(|| {
        vm.set_max_cycles(end);
        limit
    })
}

/// Gives `vm` its `limit` back, if it had a lower one: that it was passed is no more than a pause.
pub(crate) fn raise_limit<T>(
    result: Result<T, Error>,
    vm: &mut DefaultMachine<Core>,
    limit: Option<u64>,
) -> Result<T, Error> {
    let Some(limit) = limit else { return result };
    vm.set_max_cycles(limit);
    match result {
        Err(Error::CyclesExceeded) => Err(Error::Pause),
        result => result,
    }
}
