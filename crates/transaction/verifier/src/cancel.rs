//! Stopping a verification from another thread.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use ckb_vm::machine::Pause;

/// A handle that stops one verification, from any thread. Machines look at it at every taken jump.
#[derive(Clone, Default)]
pub struct StopHandle {
    wanted: Arc<AtomicBool>,
    pause: Pause,
}

impl StopHandle {
    /// A handle for one verification.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Stops the verification that has this handle, before it begins or while it runs.
    pub fn cancel(&self) {
        self.wanted.store(true, Ordering::SeqCst);
        self.pause.interrupt();
    }

    /// Whether somebody wants the verification to stop.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::SeqCst)
    }

    /// Lets machines run again, unless somebody wants the verification to stop.
    pub(crate) fn renew(&self) {
        self.pause().free();
        // In this order a call of `cancel` between the two lines is seen here.
        if self.is_wanted() {
            self.pause.interrupt();
        }
    }

    /// What machines look at.
    pub(crate) fn pause(&self) -> Pause {
        self.pause.clone()
    }
}

impl fmt::Debug for StopHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancel").field("wanted", &self.wanted).finish_non_exhaustive()
    }
}
