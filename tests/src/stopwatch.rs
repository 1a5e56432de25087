//! Processor time of the calling thread, which measures a run on a busy machine.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Processor time that this thread has used.
#[must_use]
pub fn processor_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    // The clock starts at 0 and counts up.
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// Runs `work`; returns its result and processor time.
pub fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let before = processor_time();
    let result = work();
    (result, processor_time().saturating_sub(before))
}
