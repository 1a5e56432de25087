//! Decides whether VMs resumed from a copy should run native code.

use crate::limits::{RESUMED_CYCLES_MIN, RESUMED_RUNS_MIN};

/// Length of the runs of resumed VMs until their next wait.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ResumedRuns {
    count: u64,
    /// Moving average of cycles per run.
    cycles: u64,
}

impl ResumedRuns {
    /// Whether resumed VMs should run native code.
    pub(crate) fn are_worth_it(self) -> bool {
        self.count < RESUMED_RUNS_MIN || self.cycles >= RESUMED_CYCLES_MIN
    }

    pub(crate) fn add(&mut self, cycles: u64) {
        self.cycles = if self.count == 0 { cycles } else { self.cycles - self.cycles / 8 + cycles / 8 };
        self.count += 1;
    }
}
