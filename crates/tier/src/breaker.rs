//! Leaves a tier alone that failed several times in a row.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Failures in a row after which a tier is left alone.
const FAILURES_MAX: u32 = 3;

/// How long it is left alone at first; each failed probe doubles it.
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
        Self(Mutex::new(State { failures: 0, pause: PAUSE_MIN, until: None, is_probed: false }))
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
            *state = State { failures: 0, pause: PAUSE_MIN, until: None, is_probed: false };
            return;
        }
        state.failures = state.failures.saturating_add(1);
        if state.is_probed {
            state.pause = (state.pause * 2).min(PAUSE_MAX);
        }
        // Those that were on the way when it opened do not make it longer.
        if state.is_probed || (state.failures >= FAILURES_MAX && state.until.is_none()) {
            state.until = Some(now + state.pause);
            state.is_probed = false;
        }
    }

    /// A request that was let through ended without saying anything about the tier, such as one whose caller went away.
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
}
