//! Idle mappings for later machines: mapped in advance for a process that may not map memory while a script
//! runs, or returned by earlier machines.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::VmError;

/// Idle objects of one kind. The reserve is empty until it is filled or gets a capacity.
pub(crate) struct Reserve<T>(Mutex<Idle<T>>);

struct Idle<T> {
    things: Vec<T>,
    capacity: usize,
    /// Maximum pages of each object.
    pages_max: usize,
}

impl<T> Reserve<T> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Idle { things: Vec::new(), capacity: 0, pages_max: usize::MAX }))
    }

    fn lock(&self) -> MutexGuard<'_, Idle<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn take(&self) -> Option<T> {
        self.lock().things.pop()
    }

    /// Maximum pages of one more object; `None` if the reserve is full.
    pub(crate) fn space(&self) -> Option<usize> {
        let idle = self.lock();
        (idle.things.len() < idle.capacity).then_some(idle.pages_max)
    }

    /// Adds `thing`, or drops it if the reserve is full.
    pub(crate) fn give(&self, thing: T) {
        let mut idle = self.lock();
        if idle.things.len() < idle.capacity {
            idle.things.push(thing);
        }
    }

    /// Creates the missing objects up to `capacity`, each with any number of pages.
    pub(crate) fn fill(
        &self,
        capacity: usize,
        make: impl FnOnce(usize) -> Result<Vec<T>, VmError>,
    ) -> Result<(), VmError> {
        let mut idle = self.lock();
        (idle.capacity, idle.pages_max) = (capacity, usize::MAX);
        let missing = capacity.saturating_sub(idle.things.len());
        if missing > 0 {
            idle.things.append(&mut make(missing)?);
        }
        Ok(())
    }

    /// Raises the capacity for returned objects to `capacity`, of up to `pages_max` pages each. A larger
    /// existing capacity stays.
    pub(crate) fn allow(&self, capacity: usize, pages_max: usize) {
        let mut idle = self.lock();
        if idle.capacity < capacity {
            (idle.capacity, idle.pages_max) = (capacity, pages_max);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserve_holds_as_many_as_it_may() {
        let reserve = Reserve::new();
        assert_eq!(reserve.space(), None);
        reserve.give(1);
        assert_eq!(reserve.take(), None);
        reserve.allow(2, 512);
        assert_eq!(reserve.space(), Some(512));
        for thing in [1, 2, 3] {
            reserve.give(thing);
        }
        assert_eq!((reserve.space(), reserve.take()), (None, Some(2)));
        // A smaller capacity changes nothing, and a filled reserve has no page limit.
        reserve.allow(1, 4);
        assert_eq!(reserve.space(), Some(512));
        reserve.fill(3, |count| Ok(vec![9; count])).unwrap();
        assert_eq!((reserve.space(), reserve.take()), (None, Some(9)));
        assert_eq!(reserve.space(), Some(usize::MAX));
    }
}
