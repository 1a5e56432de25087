//! Processor time of the calling thread: what a run costs on a machine that does other things as well.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Processor time that this thread has used.
#[must_use]
pub fn processor_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    // The clock starts at 0 and counts up.
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// Runs `work` and gives its result and the processor time that it took.
pub fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let before = processor_time();
    let result = work();
    (result, processor_time().saturating_sub(before))
}
