//! Cancels a verification from another thread.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use ckb_vm::machine::Pause;

/// A handle that stops one verification from any thread. Machines poll it at every taken jump.
#[derive(Clone, Default)]
pub struct StopHandle {
    wanted: Arc<AtomicBool>,
    pause: Pause,
}

impl StopHandle {
    /// Stops the verification with this handle, before it starts or while it runs.
    pub fn cancel(&self) {
        self.wanted.store(true, Ordering::SeqCst);
        self.pause.interrupt();
    }

    /// Whether cancellation was requested.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::SeqCst)
    }

    /// Lets machines run again, unless cancellation was requested.
    pub(crate) fn renew(&self) {
        self.pause().free();
        // This order does not miss a call of `cancel` between the two lines.
        if self.is_wanted() {
            self.pause.interrupt();
        }
    }

    /// The pause that machines poll.
    pub(crate) fn pause(&self) -> Pause {
        self.pause.clone()
    }
}
