//! Retries: their number, their pauses, and their budget over all calls.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

/// A full budget, in thousandths of a failure.
const BUDGET_FULL: i64 = 100_000;
/// Cost of a failure.
const FAILURE_COSTS: i64 = 1_000;
/// Gain of an answer.
const ANSWER_EARNS: i64 = 100;

/// A client's calls.
pub(crate) const CALLS: Retry = Retry {
    attempts_max: 8,
    // If the server is gone, another one gets the call, so the first pause is short.
    pause_min: Duration::from_millis(50),
    pause_max: Duration::from_secs(3),
    is_spread: true,
};

/// Number and pauses of retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Maximum attempts per answer.
    pub attempts_max: u32,
    /// Pause before the second attempt; it doubles each time.
    pub pause_min: Duration,
    pub pause_max: Duration,
    /// Whether pauses are random up to these values, so that many callers do not return at once.
    pub is_spread: bool,
}

impl Retry {
    /// No retries.
    pub const NEVER: Self =
        Self { attempts_max: 1, pause_min: Duration::ZERO, pause_max: Duration::ZERO, is_spread: false };

    /// Pause after attempt `attempt`; the first is 0.
    #[must_use]
    pub fn pause(&self, attempt: u32) -> Duration {
        let most = self.pause_min.saturating_mul(1 << attempt.min(10)).min(self.pause_max);
        if self.is_spread { most.mul_f64(rand::random_range(0.0..1.0)) } else { most }
    }

    /// Repeats `call` until it succeeds or fails permanently.
    ///
    /// # Errors
    /// The error of the last attempt.
    pub async fn insist<T, E, F>(&self, call: impl Fn() -> F, is_passing: impl Fn(&E) -> bool) -> Result<T, E>
    where
        F: Future<Output = Result<T, E>>,
    {
        for attempt in 0..self.attempts_max.saturating_sub(1) {
            match call().await {
                Err(error) if is_passing(&error) => tokio::time::sleep(self.pause(attempt)).await,
                answer => return answer,
            }
        }
        call().await
    }
}

/// Failures may use half of it before retries stop; answers refill it.
#[derive(Debug)]
pub(crate) struct Budget(AtomicI64);

impl Default for Budget {
    fn default() -> Self {
        Self(AtomicI64::new(BUDGET_FULL))
    }
}

impl Budget {
    /// Counts a failure. Returns whether a retry is allowed.
    pub(crate) fn fail(&self) -> bool {
        self.change(-FAILURE_COSTS) > BUDGET_FULL / 2
    }

    pub(crate) fn succeed(&self) {
        self.change(ANSWER_EARNS);
    }

    fn change(&self, by: i64) -> i64 {
        let next = |left: i64| (left + by).clamp(0, BUDGET_FULL);
        let before = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| Some(next(left)));
        next(before.unwrap_or_else(|left| left))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

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
    fn pauses_grow_and_have_an_end() {
        let even = Retry { is_spread: false, ..CALLS };
        let pauses = [0, 1, 2, 5, 6, 40].map(|attempt| even.pause(attempt).as_millis());
        assert_eq!(pauses, [50, 100, 200, 1_600, 3_000, 3_000]);
        for attempt in 0..40 {
            assert!(CALLS.pause(attempt) <= even.pause(attempt), "{attempt}");
        }
        let longest = (0..100).map(|_| CALLS.pause(0)).max().unwrap();
        assert!(longest > even.pause(0) / 2 && longest <= even.pause(0), "{longest:?}");
    }

    #[tokio::test]
    async fn what_passes_is_asked_again_so_often() {
        let retry = Retry { attempts_max: 3, pause_min: Duration::from_millis(1), ..CALLS };
        for (error, expected) in [("busy", 3), ("wrong", 1)] {
            let calls = Cell::new(0);
            let call = || async {
                calls.set(calls.get() + 1);
                Err::<(), _>(error)
            };
            assert_eq!(retry.insist(call, |error| *error == "busy").await, Err(error));
            assert_eq!(calls.get(), expected);
        }
        let calls = Cell::new(0);
        let call = || async {
            calls.set(calls.get() + 1);
            if calls.get() < 2 { Err("busy") } else { Ok(calls.get()) }
        };
        assert_eq!(retry.insist(call, |_| true).await, Ok(2));
        assert_eq!(Retry::NEVER.insist(|| async { Err::<(), _>(1) }, |_| true).await, Err(1));
    }
}
