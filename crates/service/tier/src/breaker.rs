//! Circuit breaker of a tier: opens after several failures in a row, or after too many recent failures even
//! with successes between them.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum BreakerState {
    /// All requests.
    #[default]
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

/// A request that was admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admitted {
    Usual,
    Probe,
}

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
    /// Admits a request or not. Each admitted request must end in [`Breaker::record`] or [`Breaker::forget`].
    pub(crate) fn admit(&self, now: Instant) -> Option<Admitted> {
        let mut state = self.0.lock();
        match state.until {
            None => Some(Admitted::Usual),
            Some(until) if now < until || state.is_probed => None,
            Some(_) => {
                state.is_probed = true;
                Some(Admitted::Probe)
            }
        }
    }

    /// Records the result of an admitted request. A late one of a request before the probe is not the probe's.
    pub(crate) fn record(&self, admitted: Admitted, is_well: bool, now: Instant) {
        let mut state = self.0.lock();
        let is_probe = admitted == Admitted::Probe;
        if is_well {
            if is_probe {
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
        if is_probe || (is_bad && state.until.is_none()) {
            state.until = Some(now + state.pause);
            state.pause = (state.pause * 2).min(PAUSE_MAX);
            state.is_probed &= !is_probe;
        }
    }

    /// Records that an admitted request ended without a result, for example because its caller went away.
    pub(crate) fn forget(&self, admitted: Admitted) {
        self.0.lock().is_probed &= admitted != Admitted::Probe;
    }

    pub(crate) fn state(&self) -> BreakerState {
        let state = self.0.lock();
        match state.until {
            None => BreakerState::Closed,
            Some(_) if state.is_probed => BreakerState::Probing,
            Some(_) => BreakerState::Open,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Admitted::{Probe, Usual},
        *,
    };

    #[test]
    fn it_opens_after_failures_in_a_row_and_probes_with_one_request() {
        let breaker = Breaker::default();
        let start = Instant::now();
        for is_well in [false, false, true, false, false] {
            assert_eq!(breaker.admit(start), Some(Usual));
            breaker.record(Usual, is_well, start);
        }
        assert_eq!(breaker.state(), BreakerState::Closed);
        breaker.record(Usual, false, start);
        assert_eq!(breaker.state(), BreakerState::Open);
        assert_eq!(breaker.admit(start), None);
        let mut now = start;
        let mut pause = PAUSE_MIN;
        for _ in 0..8 {
            now += pause;
            assert_eq!([breaker.admit(now), breaker.admit(now)], [Some(Probe), None]);
            for is_well in [true, false] {
                breaker.record(Usual, is_well, now);
                breaker.forget(Usual);
                assert_eq!(breaker.admit(now), None, "the probe is in progress");
            }
            assert_eq!(breaker.state(), BreakerState::Probing);
            breaker.record(Probe, false, now);
            assert_eq!(breaker.admit(now), None);
            pause = (pause * 2).min(PAUSE_MAX);
            assert_eq!(breaker.admit(now + pause - Duration::from_millis(1)), None);
        }
        now += pause;
        assert_eq!(breaker.admit(now), Some(Probe));
        breaker.forget(Probe);
        assert_eq!(breaker.admit(now), Some(Probe), "a probe whose caller went away is made again");
        breaker.record(Probe, true, now);
        assert_eq!([breaker.admit(now); 2], [Some(Usual); 2]);
    }

    #[test]
    fn successes_between_failures_do_not_keep_it_closed() {
        let (breaker, mut now) = (Breaker::default(), Instant::now());
        let mut pauses = Vec::new();
        for _ in 0..4 {
            let mut requests = 0;
            // Every third request fails.
            while breaker.state() == BreakerState::Closed {
                breaker.record(Usual, requests % 3 != 0, now);
                requests += 1;
                assert!(requests <= LATELY, "it is never left alone");
            }
            let begin = now;
            while breaker.admit(now).is_none() {
                now += Duration::from_millis(100);
            }
            pauses.push(now - begin);
            breaker.record(Probe, true, now);
            assert_eq!(breaker.state(), BreakerState::Closed);
        }
        assert_eq!(pauses, [500, 1_000, 2_000, 4_000].map(Duration::from_millis), "longer each time");
        for _ in 0..=LATELY {
            breaker.record(Usual, true, now);
        }
        for _ in 0..FAILURES_MAX {
            breaker.record(Usual, false, now);
        }
        assert!(breaker.admit(now + PAUSE_MIN).is_some(), "it was well for long");
    }
}
