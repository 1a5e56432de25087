//! Mappings kept for machines to come, for a process that may not map memory while a script runs.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{
    VmError,
    limits::{MACHINES_MAX, NATIVE_STACK_BYTES},
    memory::{Core, CoreMemory},
    stack::NativeStack,
};

/// Memory of machines, all of it zeros.
pub(crate) static CORES: Reserve<CoreMemory> = Reserve::new();
/// Native stacks of the default size.
pub(crate) static STACKS: Reserve<NativeStack> = Reserve::new();

/// Things of one kind. Without [`reserve_machines`] it keeps none.
pub(crate) struct Reserve<T>(Mutex<Kept<T>>);

struct Kept<T> {
    things: Vec<T>,
    most: usize,
}

impl<T> Reserve<T> {
    const fn new() -> Self {
        Self(Mutex::new(Kept { things: Vec::new(), most: 0 }))
    }

    fn lock(&self) -> MutexGuard<'_, Kept<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One of the things, if there is one.
    pub(crate) fn take(&self) -> Option<T> {
        self.lock().things.pop()
    }

    /// Whether [`Reserve::give`] keeps one more.
    pub(crate) fn has_room(&self) -> bool {
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

    fn fill(&self, most: usize, mut make: impl FnMut() -> Result<T, VmError>) -> Result<(), VmError> {
        let mut kept = self.lock();
        kept.most = most;
        while kept.things.len() < most {
            kept.things.push(make()?);
        }
        Ok(())
    }
}

/// Maps all machines that a transaction can need at once, and keeps them mapped from now on. For a worker that is about to
/// give up `mmap` and `munmap`; it is address space alone until it is used.
///
/// # Errors
/// When the kernel refuses address space.
pub fn reserve_machines() -> Result<(), VmError> {
    CORES.fill(MACHINES_MAX, Core::map_memory)?;
    STACKS.fill(MACHINES_MAX, || NativeStack::map(NATIVE_STACK_BYTES))
}
