//! Circuit breaker of a tier: opens after several failures in a row, or after too many recent failures even
//! with successes between them.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use strum::{IntoStaticStr, VariantNames};

/// Consecutive failures that open the breaker.
const FAILURES_MAX: u32 = 3;

/// Number of requests that count as recent.
const LATELY: u32 = 20;

/// Recent failures that open the breaker too.
const FAILURES_LATELY_MAX: u32 = 5;

/// Initial open time. Each failed probe, and each reopening before a long run of successes, doubles it.
const PAUSE_MIN: Duration = Duration::from_millis(500);

const PAUSE_MAX: Duration = Duration::from_secs(15);

/// Which requests a breaker admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum BreakerState {
    /// All requests.
    Closed,
    /// No requests.
    Open,
    /// One request, as a probe.
    Probing,
}

#[derive(Debug)]
struct State {
    failures: u32,
    /// One bit per recent request, the latest in the lowest bit: 1 for a failure.
    lately: u32,
    /// Consecutive successes; more than [`LATELY`] reset the open time.
    successes: u32,
    /// Open time the next time that the breaker opens.
    pause: Duration,
    /// End of the open time; `None` while the breaker is closed.
    until: Option<Instant>,
    is_probed: bool,
}

#[derive(Debug)]
pub(crate) struct Breaker(Mutex<State>);

impl Default for Breaker {
    fn default() -> Self {
        Self(Mutex::new(State {
            failures: 0,
            lately: 0,
            successes: 0,
            pause: PAUSE_MIN,
            until: None,
            is_probed: false,
        }))
    }
}

impl Breaker {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a request is admitted. Each admitted request must end in [`Breaker::record`] or
    /// [`Breaker::forget`].
    pub(crate) fn admits(&self, now: Instant) -> bool {
        let mut state = self.lock();
        match state.until {
            None => true,
            Some(until) if now < until || state.is_probed => false,
            Some(_) => {
                state.is_probed = true;
                true
            }
        }
    }

    /// Records the result of an admitted request.
    pub(crate) fn record(&self, is_well: bool, now: Instant) {
        let mut state = self.lock();
        if is_well {
            if state.is_probed {
                // Close the breaker; failures before the probe must not count twice.
                (state.until, state.is_probed, state.lately) = (None, false, 0);
            }
            state.failures = 0;
            state.lately = (state.lately << 1) & ((1 << LATELY) - 1);
            state.successes = state.successes.saturating_add(1);
            if state.successes > LATELY {
                state.pause = PAUSE_MIN;
            }
            return;
        }
        state.failures = state.failures.saturating_add(1);
        state.lately = (state.lately << 1 | 1) & ((1 << LATELY) - 1);
        state.successes = 0;
        let is_bad = state.failures >= FAILURES_MAX || state.lately.count_ones() >= FAILURES_LATELY_MAX;
        // Requests in flight when the breaker opened do not extend the open time.
        if state.is_probed || (is_bad && state.until.is_none()) {
            state.until = Some(now + state.pause);
            state.pause = (state.pause * 2).min(PAUSE_MAX);
            state.is_probed = false;
        }
    }

    /// Records that an admitted request ended without a result, for example because its caller went away.
    pub(crate) fn forget(&self) {
        self.lock().is_probed = false;
    }

    pub(crate) fn state(&self) -> BreakerState {
        let state = self.lock();
        match state.until {
            None => BreakerState::Closed,
            Some(_) if state.is_probed => BreakerState::Probing,
            Some(_) => BreakerState::Open,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_opens_after_failures_in_a_row_and_probes_with_one_request() {
        let breaker = Breaker::default();
        let start = Instant::now();
        for is_well in [false, false, true, false, false] {
            assert!(breaker.admits(start));
            breaker.record(is_well, start);
        }
        assert_eq!(breaker.state(), BreakerState::Closed);
        breaker.record(false, start);
        assert_eq!(breaker.state(), BreakerState::Open);
        assert!(!breaker.admits(start));
        let mut now = start;
        let mut pause = PAUSE_MIN;
        for _ in 0..8 {
            now += pause;
            assert!(breaker.admits(now) && !breaker.admits(now), "one probe");
            assert_eq!(breaker.state(), BreakerState::Probing);
            breaker.record(false, now);
            assert!(!breaker.admits(now));
            pause = (pause * 2).min(PAUSE_MAX);
            assert!(!breaker.admits(now + pause - Duration::from_millis(1)));
        }
        now += pause;
        assert!(breaker.admits(now));
        breaker.forget();
        assert!(breaker.admits(now), "a probe whose caller went away is made again");
        breaker.record(true, now);
        assert!(breaker.admits(now) && breaker.admits(now));
    }

    #[test]
    fn successes_between_failures_do_not_keep_it_closed() {
        let (breaker, mut now) = (Breaker::default(), Instant::now());
        let mut pauses = Vec::new();
        for _ in 0..4 {
            let mut requests = 0;
            // Every third request fails.
            while breaker.state() == BreakerState::Closed {
                breaker.record(requests % 3 != 0, now);
                requests += 1;
                assert!(requests <= LATELY, "it is never left alone");
            }
            let begin = now;
            while !breaker.admits(now) {
                now += Duration::from_millis(100);
            }
            pauses.push(now - begin);
            breaker.record(true, now);
            assert_eq!(breaker.state(), BreakerState::Closed);
        }
        assert_eq!(pauses, [500, 1_000, 2_000, 4_000].map(Duration::from_millis), "longer each time");
        for _ in 0..=LATELY {
            breaker.record(true, now);
        }
        for _ in 0..FAILURES_MAX {
            breaker.record(false, now);
        }
        assert!(breaker.admits(now + PAUSE_MIN), "it was well for long");
    }
}
