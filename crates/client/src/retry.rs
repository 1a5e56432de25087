//! Whether a call is made again, when, and how often over all calls.

use std::{
    error::Error as _,
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

use tonic::{Code, Status};
use tonic_types::StatusExt as _;

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

/// What to do about a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Advice {
    /// Ask again after this time.
    Wait(Duration),
    /// This server is gone: ask another one.
    Elsewhere,
    /// It is the answer.
    No,
}

impl Advice {
    /// The rule of the proto files: what carries a RetryInfo is asked again after its delay, and who is gone is not asked.
    pub(crate) fn of(status: &Status) -> Self {
        if let Some(retry) = status.get_details_retry_info() {
            return Self::Wait(retry.retry_delay.unwrap_or_default());
        }
        // The connection's own trouble has a source, what a server says has none.
        let is_lost = status.source().is_some()
            && matches!(status.code(), Code::Unknown | Code::Internal | Code::Cancelled);
        let is_gone = status.code() == Code::Unavailable && status.get_details_error_info().is_none();
        if is_lost || is_gone { Self::Elsewhere } else { Self::No }
    }
}

/// How long to wait before attempt `attempt` (the first is 0): at least `asked`, and not all clients at the same time.
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
    use tonic_types::ErrorDetails;

    use super::*;

    #[test]
    fn only_what_may_pass_is_asked_again() {
        let delay = Duration::from_millis(70);
        let mut details = ErrorDetails::with_retry_info(Some(delay));
        details.set_error_info("WORKERS_BUSY", "antares.v1", []);
        let busy = Status::with_error_details(Code::ResourceExhausted, "busy", details);
        assert_eq!(Advice::of(&busy), Advice::Wait(delay));
        assert_eq!(Advice::of(&Status::unavailable("going")), Advice::Elsewhere);
        let told = ErrorDetails::with_error_info("SOURCE_UNAVAILABLE", "antares.v1", []);
        let told = Status::with_error_details(Code::Unavailable, "no", told);
        assert_eq!(Advice::of(&told), Advice::No);
        for code in [Code::Internal, Code::Unknown, Code::InvalidArgument, Code::DeadlineExceeded] {
            assert_eq!(Advice::of(&Status::new(code, "its own")), Advice::No, "{code:?}");
        }
        let lost = Status::from_error(Box::new(std::io::Error::other("reset")));
        assert_eq!(Advice::of(&lost), Advice::Elsewhere);
    }

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
