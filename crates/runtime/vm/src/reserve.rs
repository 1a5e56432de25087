//! Idle mappings for later machines: made ahead of time in a process that may not map memory while a script
//! runs, or returned by earlier machines.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::VmError;

/// Things of one kind. It holds none until it is filled or has a capacity.
pub(crate) struct Reserve<T>(Mutex<Idle<T>>);

struct Idle<T> {
    things: Vec<T>,
    capacity: usize,
    /// Pages that each may hold.
    pages_max: usize,
}

impl<T> Reserve<T> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Idle { things: Vec::new(), capacity: 0, pages_max: usize::MAX }))
    }

    fn lock(&self) -> MutexGuard<'_, Idle<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One of the things, if there is one.
    pub(crate) fn take(&self) -> Option<T> {
        self.lock().things.pop()
    }

    /// The pages that one more thing may hold; none if there are enough.
    pub(crate) fn space(&self) -> Option<usize> {
        let idle = self.lock();
        (idle.things.len() < idle.capacity).then_some(idle.pages_max)
    }

    /// Adds `thing`, or drops it if there are enough.
    pub(crate) fn give(&self, thing: T) {
        let mut idle = self.lock();
        if idle.things.len() < idle.capacity {
            idle.things.push(thing);
        }
    }

    /// Makes as many as are missing until there are `capacity`, each with any number of pages.
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

    /// Holds up to `capacity` returned things of up to `pages_max` pages from now on, unless it holds more
    /// already.
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
        // A smaller capacity changes nothing, and one that is filled has no limit of pages.
        reserve.allow(1, 4);
        assert_eq!(reserve.space(), Some(512));
        reserve.fill(3, |count| Ok(vec![9; count])).unwrap();
        assert_eq!((reserve.space(), reserve.take()), (None, Some(9)));
        assert_eq!(reserve.space(), Some(usize::MAX));
    }
}
