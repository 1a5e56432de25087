//! What the native code of a counted build has counted, of all machines of a session.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use antares_abi::{COUNTER_BITS_MAX, COUNTER_BITS_MIN};

use crate::{MachineSession, Program, Tier, memory::Core};

/// Counters of a session.
pub(crate) struct Counters(Mutex<Vec<u8>>);

impl Counters {
    pub(crate) fn new(bits: u8) -> Self {
        Self(Mutex::new(vec![0; 1 << bits.clamp(COUNTER_BITS_MIN, COUNTER_BITS_MAX)]))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        // A panic elsewhere leaves it whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets `read` see the counters, and sets them to zero.
    pub(crate) fn take(&self, read: impl FnOnce(&mut [u8])) {
        let mut counters = self.lock();
        read(&mut counters);
        counters.fill(0);
    }
}

/// The programs whose code any machine may run.
pub(crate) fn without_counted(mut programs: Vec<Arc<Program>>) -> Vec<Arc<Program>> {
    programs.retain(|program| !program.library().is_counted());
    programs
}

impl MachineSession {
    /// A session whose `programs` count where they go, by numbers of `bits` bits: for fuzzing. It uses no
    /// others, and no other session uses them.
    #[must_use]
    pub fn counting(mut programs: Vec<Arc<Program>>, bits: u8) -> Arc<Self> {
        programs.retain(|program| program.library().is_counted());
        let mut session = Self::make_of(Tier::Auto, programs, None);
        session.counters = Some(Counters::new(bits));
        Arc::new(session)
    }

    /// Lets `read` see what was counted since the last call, and sets it to zero; false in a session that
    /// does not count. Machines that are still there have not told yet.
    pub fn take_counters(&self, read: impl FnOnce(&mut [u8])) -> bool {
        self.counters.as_ref().map(|counters| counters.take(read)).is_some()
    }

    /// Has `machine` count if this session does.
    pub(crate) fn prepare_counters(&self, machine: &mut Core) {
        if self.counters.is_some() {
            machine.open_counters();
        }
    }

    /// Adds what `machine` has counted.
    pub(crate) fn add_counters(&self, machine: &mut Core) {
        if let Some(counters) = &self.counters {
            machine.take_counters(&mut counters.lock());
        }
    }
}
