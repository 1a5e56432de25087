//! One machine for each thread, kept for its next run.

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
