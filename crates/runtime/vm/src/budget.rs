//! Cycle budget of a session's machines until they pause.

use std::sync::atomic::{AtomicU64, Ordering};

use ckb_vm::{DefaultMachine, Error, SupportMachine};

use crate::{MachineSession, limits::PAUSE_CYCLES_MIN, memory::Core};

/// Remaining cycles until machines must pause.
#[derive(Debug)]
pub(crate) struct Budget(AtomicU64);

/// No pause.
impl Default for Budget {
    fn default() -> Self {
        Self(AtomicU64::new(u64::MAX))
    }
}

impl Budget {
    /// The cycle count at which a machine that is at `cycles` must pause.
    pub(crate) fn end(&self, cycles: u64) -> u64 {
        cycles.saturating_add(self.0.load(Ordering::Relaxed))
    }

    /// Deducts cycles that a machine used.
    pub(crate) fn spend(&self, cycles: u64) {
        let left = self.0.load(Ordering::Relaxed);
        if left != u64::MAX {
            self.0.store(left.saturating_sub(cycles), Ordering::Relaxed);
        }
    }
}

impl MachineSession {
    /// Makes machines pause after `cycles` in total, or slightly later, with [`Error::Pause`], like a
    /// requested pause. They resume if they run again, after another call of this function. The minimum is
    /// [`PAUSE_CYCLES_MIN`], so that each run makes progress.
    pub fn set_pause_after(&self, cycles: u64) {
        self.budget.0.store(cycles.max(PAUSE_CYCLES_MIN), Ordering::Relaxed);
    }
}

/// Lowers the limit of `vm` to `end`, for an interpreter, which stops before exceeding it. Returns the
/// previous limit.
pub(crate) fn lower_limit(vm: &mut DefaultMachine<Core>, end: u64) -> Option<u64> {
    let limit = vm.max_cycles();
    (end < limit).then(|| {
        vm.set_max_cycles(end);
        limit
    })
}

/// Restores the limit of `vm` if it was lowered; exceeding the lower limit is only a pause.
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
