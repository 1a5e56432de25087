//! The counters of a counted build's native code, summed over all machines of a session.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use antares_abi::{COUNTER_BITS_MAX, COUNTER_BITS_MIN};

use crate::{MachineSession, Program, Tier, memory::Core};

pub(crate) struct Counters(Mutex<Vec<u8>>);

impl Counters {
    pub(crate) fn new(bits: u8) -> Self {
        Self(Mutex::new(vec![0; 1 << bits.clamp(COUNTER_BITS_MIN, COUNTER_BITS_MAX)]))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        // A panic elsewhere cannot leave it inconsistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes the counters to `read`, and resets them.
    pub(crate) fn take(&self, read: impl FnOnce(&mut [u8])) {
        let mut counters = self.lock();
        read(&mut counters);
        counters.fill(0);
    }
}

/// Keeps the programs that do not count, which any session may use.
pub(crate) fn without_counted(mut programs: Vec<Arc<Program>>) -> Vec<Arc<Program>> {
    programs.retain(|program| !program.library().is_counted());
    programs
}

impl MachineSession {
    /// A session whose `programs` count control flow, with counter indexes of `bits` bits: for fuzzing. It
    /// uses no other programs, and no other session uses them.
    #[must_use]
    pub fn counting(mut programs: Vec<Arc<Program>>, bits: u8) -> Arc<Self> {
        programs.retain(|program| program.library().is_counted());
        let mut session = Self::make_of(Tier::Auto, programs, None);
        session.counters = Some(Counters::new(bits));
        Arc::new(session)
    }

    /// Passes the counters since the last call to `read`, and resets them. Returns false if the session does
    /// not count. Machines that still exist have not reported their counters yet.
    pub fn take_counters(&self, read: impl FnOnce(&mut [u8])) -> bool {
        self.counters.as_ref().map(|counters| counters.take(read)).is_some()
    }

    /// Opens the counters of `machine` if this session counts.
    pub(crate) fn prepare_counters(&self, machine: &mut Core) {
        if self.counters.is_some() {
            machine.open_counters();
        }
    }

    /// Adds the counters of `machine`.
    pub(crate) fn add_counters(&self, machine: &mut Core) {
        if let Some(counters) = &self.counters {
            machine.take_counters(&mut counters.lock());
        }
    }
}
