//! The circuit breaker of an unreachable server. An open circuit refuses nothing: it ranks the server after
//! all others.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How long a circuit stays open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CircuitSettings {
    /// Initial time. It doubles until the server answers again.
    pub open: Duration,
    /// Longest time.
    pub open_max: Duration,
}

/// The circuit of one server.
#[derive(Debug)]
pub struct CircuitBreaker {
    settings: CircuitSettings,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    until: Option<Instant>,
    /// Last open time; none after an answer.
    last: Option<Duration>,
}

impl CircuitBreaker {
    /// A closed circuit.
    #[must_use]
    pub fn new(settings: CircuitSettings) -> Self {
        Self { settings, state: Mutex::default() }
    }

    /// The server is unreachable. Calls that were in progress when it opened do not prolong it.
    pub fn open(&self) {
        self.open_at(Instant::now());
    }

    /// Whether the server ranks last.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.state.lock().is_open(Instant::now())
    }

    /// The server has answered. An open circuit still stays open for its time.
    pub fn answered(&self) {
        let mut state = self.state.lock();
        if !state.is_open(Instant::now()) {
            state.last = None;
        }
    }

    fn open_at(&self, now: Instant) {
        let mut state = self.state.lock();
        if !state.is_open(now) {
            let open = state.last.map_or(self.settings.open, |last| (last * 2).min(self.settings.open_max));
            *state = State { until: Some(now + open), last: Some(open) };
        }
    }
}

impl State {
    fn is_open(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const SETTINGS: CircuitSettings = CircuitSettings { open: SECOND, open_max: Duration::from_secs(5) };

    #[test]
    fn an_answer_does_not_close_it() {
        let circuit = CircuitBreaker::new(CircuitSettings { open: 60 * SECOND, open_max: 60 * SECOND });
        assert!(!circuit.is_open());
        circuit.open();
        circuit.answered();
        assert!(circuit.is_open(), "one answer of a server that others could not reach says little");
    }

    #[test]
    fn it_opens_for_longer_each_time_until_the_server_answers() {
        let circuit = CircuitBreaker::new(SETTINGS);
        let mut now = Instant::now().checked_sub(60 * SECOND).unwrap();
        for seconds in [1, 2, 4, 5, 5] {
            circuit.open_at(now);
            circuit.open_at(now + SECOND / 2);
            now += seconds * SECOND;
            let open = [now - SECOND / 4, now].map(|at| circuit.state.lock().is_open(at));
            assert_eq!(open, [true, false], "{seconds}");
        }
        circuit.answered();
        circuit.open_at(now);
        assert!(!circuit.state.lock().is_open(now + SECOND));
    }
}
