//! ckb-vm's machine for short scripts: created faster, with its cycles counted like those of a worker.

use std::cell::Cell;

use ckb_vm::{DefaultMachine, DefaultMachineRunner, Error, SupportMachine as _};

use crate::{Engine, TierCycles};

/// A machine on system-zeroed memory.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(crate) type QuickMachine = ckb_vm::machine::asm::AsmMachine<crate::zeroed::ZeroedMachine>;
/// ckb-script's own machine where there is no assembly.
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
pub(crate) type QuickMachine = ckb_script::types::Machine;

thread_local! {
    /// Cycles that machines of this thread have run since the last query.
    static RUN: Cell<u64> = const { Cell::new(0) };
}

/// A machine that counts the cycles that it runs, excluding those of loading and of messages between VMs.
pub struct TalliedMachine<M>(M);

impl<M: DefaultMachineRunner> DefaultMachineRunner for TalliedMachine<M> {
    type Inner = M::Inner;

    fn new(machine: DefaultMachine<M::Inner>) -> Self {
        Self(M::new(machine))
    }

    fn machine(&self) -> &DefaultMachine<M::Inner> {
        self.0.machine()
    }

    fn machine_mut(&mut self) -> &mut DefaultMachine<M::Inner> {
        self.0.machine_mut()
    }

    fn run(&mut self) -> Result<i8, Error> {
        let before = self.0.machine().cycles();
        let result = self.0.run();
        let cycles = self.0.machine().cycles().saturating_sub(before);
        RUN.set(RUN.get().saturating_add(cycles));
        result
    }
}

/// Like [`Interpreter`](crate::Interpreter), for short scripts.
#[derive(Clone, Copy, Debug, Default)]
pub struct QuickInterpreter;

impl Engine for QuickInterpreter {
    type Machine = TalliedMachine<QuickMachine>;

    fn attempt<T>(&self, mut attempt: impl FnMut() -> T) -> T {
        RUN.set(0);
        attempt()
    }

    fn take_counts(&self) -> Option<TierCycles> {
        Some(TierCycles { interpreted_cycles: RUN.take(), ..TierCycles::default() })
    }
}
