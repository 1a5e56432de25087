//! Mappings kept for machines to come, for a process that may not map memory while a script runs.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::VmError;

/// Things of one kind. It keeps none until it is filled.
pub(crate) struct Reserve<T>(Mutex<Idle<T>>);

struct Idle<T> {
    things: Vec<T>,
    most: usize,
}

impl<T> Reserve<T> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Idle { things: Vec::new(), most: 0 }))
    }

    fn lock(&self) -> MutexGuard<'_, Idle<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One of the things, if there is one.
    pub(crate) fn take(&self) -> Option<T> {
        self.lock().things.pop()
    }

    /// Whether [`Reserve::give`] keeps one more.
    pub(crate) fn has_space(&self) -> bool {
        let kept = self.lock();
        kept.things.len() < kept.most
    }

    /// Keeps `thing`, or drops it if there are enough.
    pub(crate) fn give(&self, thing: T) {
        let mut kept = self.lock();
        if kept.things.len() < kept.most {
            kept.things.push(thing);
        }
    }

    /// Has as many made as are missing until there are `most`, and keeps as many from now on.
    pub(crate) fn fill(
        &self,
        most: usize,
        make: impl FnOnce(usize) -> Result<Vec<T>, VmError>,
    ) -> Result<(), VmError> {
        let mut kept = self.lock();
        kept.most = most;
        let missing = most.saturating_sub(kept.things.len());
        if missing > 0 {
            kept.things.append(&mut make(missing)?);
        }
        Ok(())
    }
}
