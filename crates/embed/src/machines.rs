//! Reusable machines: one for each thread that runs scripts, and a few per process for transactions.

use std::cell::RefCell;

use antares_vm::Machine;

use crate::{Error, error::chain, syscalls::Slot};

thread_local! {
    static MACHINE: RefCell<Option<Mapped>> = const { RefCell::new(None) };
}

/// A machine and the slot for its system calls.
pub(crate) struct Mapped {
    pub(crate) machine: Machine,
    pub(crate) calls: Slot,
}

impl Mapped {
    fn new() -> Result<Self, Error> {
        let calls = Slot::default();
        let machine = Machine::with_calls(Box::new(calls.clone()));
        Ok(Self { machine: machine.map_err(|error| Error::Machine(chain(&error)))?, calls })
    }
}

/// Runs `work` on this thread's machine. A nested run, started by a system call, uses a new machine.
pub(crate) fn with_machine<T>(work: impl FnOnce(&mut Mapped) -> Result<T, Error>) -> Result<T, Error> {
    let cached = MACHINE.with_borrow_mut(Option::take);
    let mut mapped = cached.map_or_else(Mapped::new, Ok)?;
    let done = work(&mut mapped);
    mapped.calls.set(None);
    MACHINE.with_borrow_mut(|cached| *cached = Some(mapped));
    done
}

/// Cached machines of transactions per processor: one that runs, and one that waits.
#[cfg(feature = "ckb")]
const CACHED_PER_PROCESSOR: usize = 2;

/// Lets transactions reuse machines and the cells in their memory, as many as the processors can use concurrently.
#[cfg(feature = "ckb")]
pub(crate) fn reuse_machines() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let processors = std::thread::available_parallelism().map_or(1, |count| count.get().min(64));
        antares_vm::cache_machines(processors * CACHED_PER_PROCESSOR);
        antares_vm::cache_cells();
    });
}
