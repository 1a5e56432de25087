//! Leaves a tier alone that failed several times in a row, or too often lately: a success between failures is
//! no excuse.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Failures in a row after which a tier is left alone.
const FAILURES_MAX: u32 = 3;

/// Requests that count as lately.
const LATELY: u32 = 20;

/// Failures among them after which it is left alone too.
const FAILURES_LATELY_MAX: u32 = 5;

/// How long it is left alone at first; each failed probe, and each time that it opens again soon, doubles it.
const PAUSE_MIN: Duration = Duration::from_millis(500);

/// How long it is left alone at most.
const PAUSE_MAX: Duration = Duration::from_secs(15);

/// What a breaker lets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    /// Everything.
    Closed,
    /// Nothing.
    Open,
    /// One request, to see.
    Probing,
}

#[derive(Debug)]
struct State {
    failures: u32,
    /// A bit for each of the last requests, the last one lowest: 1 where it failed.
    lately: u32,
    /// Successes in a row; beyond [`LATELY`] what was is forgotten.
    successes: u32,
    /// How long it is left alone when it opens next.
    pause: Duration,
    /// Until when nothing goes through.
    until: Option<Instant>,
    is_probed: bool,
}

/// The breaker of one tier.
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

    /// Whether a request may go. Each that goes is followed by [`Breaker::note`].
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

    /// How a request went that was let through.
    pub(crate) fn note(&self, is_well: bool, now: Instant) {
        let mut state = self.lock();
        if is_well {
            if state.is_probed {
                // It is tried again; what was before does not count twice.
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
        // Those that were on the way when it opened do not make it longer.
        if state.is_probed || (is_bad && state.until.is_none()) {
            state.until = Some(now + state.pause);
            state.pause = (state.pause * 2).min(PAUSE_MAX);
            state.is_probed = false;
        }
    }

    /// A request that was let through ended without saying anything about the tier, such as one whose caller
    /// went away.
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
            breaker.note(is_well, start);
        }
        assert_eq!(breaker.state(), BreakerState::Closed);
        breaker.note(false, start);
        assert_eq!(breaker.state(), BreakerState::Open);
        assert!(!breaker.admits(start));
        let mut now = start;
        let mut pause = PAUSE_MIN;
        for _ in 0..8 {
            now += pause;
            assert!(breaker.admits(now) && !breaker.admits(now), "one probe");
            assert_eq!(breaker.state(), BreakerState::Probing);
            breaker.note(false, now);
            assert!(!breaker.admits(now));
            pause = (pause * 2).min(PAUSE_MAX);
            assert!(!breaker.admits(now + pause - Duration::from_millis(1)));
        }
        now += pause;
        assert!(breaker.admits(now));
        breaker.forget();
        assert!(breaker.admits(now), "a probe whose caller went away is made again");
        breaker.note(true, now);
        assert!(breaker.admits(now) && breaker.admits(now));
    }

    #[test]
    fn successes_between_failures_do_not_keep_it_closed() {
        let (breaker, mut now) = (Breaker::default(), Instant::now());
        let mut pauses = Vec::new();
        for _ in 0..4 {
            let mut requests = 0;
            // Each third request hangs.
            while breaker.state() == BreakerState::Closed {
                breaker.note(requests % 3 != 0, now);
                requests += 1;
                assert!(requests <= LATELY, "it is never left alone");
            }
            let begin = now;
            while !breaker.admits(now) {
                now += Duration::from_millis(100);
            }
            pauses.push(now - begin);
            breaker.note(true, now);
            assert_eq!(breaker.state(), BreakerState::Closed);
        }
        assert_eq!(pauses, [500, 1_000, 2_000, 4_000].map(Duration::from_millis), "longer each time");
        for _ in 0..=LATELY {
            breaker.note(true, now);
        }
        for _ in 0..FAILURES_MAX {
            breaker.note(false, now);
        }
        assert!(breaker.admits(now + PAUSE_MIN), "it was well for long");
    }
}
