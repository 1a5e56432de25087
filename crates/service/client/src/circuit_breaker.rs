//! The circuit breaker of a server: open while it is as good as gone. An open circuit refuses nothing, it
//! puts the server behind all others.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// When a circuit opens, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CircuitSettings {
    /// How long it stays open.
    pub open: Duration,
    /// Calls in a row that another server answered first, from which on this one is as good as gone.
    pub outrun_max: u32,
}

/// The circuit of one server.
#[derive(Debug)]
pub struct CircuitBreaker {
    settings: CircuitSettings,
    opened: Mutex<Option<Instant>>,
    outrun: AtomicU32,
}

impl CircuitBreaker {
    /// A closed one.
    #[must_use]
    pub fn new(settings: CircuitSettings) -> Self {
        Self { settings, opened: Mutex::default(), outrun: AtomicU32::new(0) }
    }

    /// The server could not be reached.
    pub fn open(&self) {
        *self.opened.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Whether the server comes last.
    #[must_use]
    pub fn is_open(&self) -> bool {
        let opened = *self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened.is_some_and(|since| since.elapsed() < self.settings.open)
    }

    /// The server has answered. A circuit that is open stays so for its time.
    pub fn answered(&self) {
        self.outrun.store(0, Relaxed);
    }

    /// Another server has answered before this one.
    pub fn outrun(&self) {
        if self.outrun.fetch_add(1, Relaxed) + 1 >= self.settings.outrun_max {
            self.open();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: CircuitSettings = CircuitSettings { open: Duration::from_millis(50), outrun_max: 3 };

    #[test]
    fn it_is_open_for_a_while() {
        let circuit = CircuitBreaker::new(SETTINGS);
        assert!(!circuit.is_open());
        circuit.open();
        circuit.answered();
        assert!(circuit.is_open(), "one answer of a server that others could not reach says little");
        let opened = Instant::now();
        while circuit.is_open() {
            assert!(opened.elapsed() < Duration::from_secs(10));
            std::thread::yield_now();
        }
        assert!(opened.elapsed() > SETTINGS.open / 2, "{:?}", opened.elapsed());
    }

    #[test]
    fn others_that_outrun_it_again_and_again_open_it() {
        let circuit = CircuitBreaker::new(CircuitSettings { open: Duration::from_secs(60), ..SETTINGS });
        for outrun in 1..=2 * SETTINGS.outrun_max {
            // An answer makes up for all before.
            if outrun == SETTINGS.outrun_max {
                circuit.answered();
            }
            circuit.outrun();
            assert_eq!(circuit.is_open(), outrun >= 2 * SETTINGS.outrun_max - 1, "{outrun}");
        }
    }
}
