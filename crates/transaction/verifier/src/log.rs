//! Debug output of scripts, with a limit.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use antares_hosted::job::DebugLog;
use ckb_script::types::DebugPrinter;

/// The debug output of one verification, group by group.
#[derive(Clone, Debug)]
pub(crate) struct Log(Arc<Mutex<DebugLog>>);

impl Log {
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self(Arc::new(Mutex::new(DebugLog::new(bytes_max))))
    }

    /// Locks the log. A panic elsewhere cannot leave the lines inconsistent.
    pub(crate) fn lock(&self) -> MutexGuard<'_, DebugLog> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The callback of ckb-script's debug syscall.
    pub(crate) fn printer(&self) -> DebugPrinter {
        let log = self.clone();
        Arc::new(move |_group, line| log.lock().push(line))
    }
}
