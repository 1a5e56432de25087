//! Machines that later runs use again: one for each thread that runs scripts, and a few of the process for
//! transactions.

use std::cell::RefCell;

use antares_vm::Machine;

use crate::{Error, error::chain, syscalls::Slot};

thread_local! {
    static MACHINE: RefCell<Option<Mapped>> = const { RefCell::new(None) };
}

/// A machine and what it asks for system calls.
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

/// Does `work` on this thread's machine. A run that a system call begins inside of another has a machine of
/// its own.
pub(crate) fn with_machine<T>(work: impl FnOnce(&mut Mapped) -> Result<T, Error>) -> Result<T, Error> {
    let cached = MACHINE.with_borrow_mut(Option::take);
    let mut mapped = cached.map_or_else(Mapped::new, Ok)?;
    let done = work(&mut mapped);
    mapped.calls.set(None);
    MACHINE.with_borrow_mut(|cached| *cached = Some(mapped));
    done
}

/// Machines of transactions that stay mapped for each processor: one that runs, and one that waits for it.
#[cfg(feature = "ckb")]
const CACHED_PER_PROCESSOR: usize = 2;

/// Lets transactions use each other's machines again, as many as processors can have in use.
#[cfg(feature = "ckb")]
pub(crate) fn reuse_machines() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let processors = std::thread::available_parallelism().map_or(1, |count| count.get().min(64));
        antares_vm::cache_machines(processors * CACHED_PER_PROCESSOR);
    });
}
