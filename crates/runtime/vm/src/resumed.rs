//! Whether VMs that were put aside and copied are worth native code when they come back.

use crate::limits::{RESUMED_CYCLES_MIN, RESUMED_RUNS_MIN};

/// How far VMs run that were put aside, until they wait again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ResumedRuns {
    count: u64,
    /// Cycles of the last ones, on average.
    cycles: u64,
}

impl ResumedRuns {
    /// Whether such a VM should go back to native code.
    pub(crate) fn are_worth_it(self) -> bool {
        self.count < RESUMED_RUNS_MIN || self.cycles >= RESUMED_CYCLES_MIN
    }

    pub(crate) fn add(&mut self, cycles: u64) {
        self.cycles = if self.count == 0 { cycles } else { self.cycles - self.cycles / 8 + cycles / 8 };
        self.count += 1;
    }
}
