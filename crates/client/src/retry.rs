//! How often a call is made again, when, and how often over all calls.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

/// Calls for one answer, at most.
pub(crate) const ATTEMPTS_MAX: u32 = 8;
/// Wait before a second attempt where the server is gone; it doubles with each.
const BACKOFF: Duration = Duration::from_millis(50);
/// Longest of those waits.
const BACKOFF_MAX: Duration = Duration::from_secs(3);
/// A budget that is full, in thousandths of a failure.
const BUDGET_FULL: i64 = 100_000;
/// What a failure costs.
const FAILURE_COSTS: i64 = 1_000;
/// What an answer brings.
const ANSWER_BRINGS: i64 = 100;

/// How long to wait before attempt `attempt` (the first is 0): at least `asked`, and not all clients at the
/// same time.
pub(crate) fn pause(attempt: u32, asked: Duration) -> Duration {
    let most = BACKOFF.saturating_mul(1 << attempt.min(10)).min(BACKOFF_MAX);
    asked + most.mul_f64(rand::random_range(0.0..1.0))
}

/// Half of it may be used up by failures before nothing is asked again; answers fill it.
#[derive(Debug)]
pub(crate) struct Budget(AtomicI64);

impl Default for Budget {
    fn default() -> Self {
        Self(AtomicI64::new(BUDGET_FULL))
    }
}

impl Budget {
    /// Counts a failure. Whether the call may be made again.
    pub(crate) fn fail(&self) -> bool {
        self.change(-FAILURE_COSTS) > BUDGET_FULL / 2
    }

    pub(crate) fn succeed(&self) {
        self.change(ANSWER_BRINGS);
    }

    fn change(&self, by: i64) -> i64 {
        let next = |left: i64| (left + by).clamp(0, BUDGET_FULL);
        let before = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| Some(next(left)));
        next(before.unwrap_or_else(|left| left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_that_failures_used_up_is_filled_by_answers() {
        let budget = Budget::default();
        let retried = (0..1000).filter(|_| budget.fail()).count();
        assert_eq!(retried, 49);
        (0..600).for_each(|_| budget.succeed());
        assert!(budget.fail());
    }

    #[test]
    fn waits_grow_and_have_an_end() {
        let asked = Duration::from_millis(5);
        for attempt in 0..40 {
            let wait = pause(attempt, asked);
            assert!(wait >= asked && wait <= asked + BACKOFF_MAX, "{attempt}: {wait:?}");
        }
        assert!((0..100).map(|_| pause(0, asked)).max().unwrap() <= asked + BACKOFF);
    }
}
