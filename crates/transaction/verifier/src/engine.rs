//! The interface to the machine that runs the scripts.

use std::sync::{Arc, Mutex};

use ckb_script::{
    DataPieceId,
    types::{Machine, SgData},
};
use ckb_vm::{DefaultMachineRunner, Syscalls, snapshot2::Snapshot2Context};

use crate::Cells;

/// Cycles by tier. Includes only those that count for the outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierCycles {
    /// In native code.
    pub native_cycles: u64,
    /// In an interpreter.
    pub interpreted_cycles: u64,
    /// Why the first attempt was discarded, if it was.
    pub restarted: Option<&'static str>,
}

/// A VM's memory of where its pages come from.
pub type PageSources = Arc<Mutex<Snapshot2Context<DataPieceId, SgData<Cells>>>>;

/// System calls of an engine's machine.
pub type CallsOf<E> = Box<dyn Syscalls<<<E as Engine>::Machine as DefaultMachineRunner>::Inner>>;

/// A machine, and how it attempts a script group.
pub trait Engine {
    /// The machine that ckb-script's scheduler creates for each VM.
    type Machine: DefaultMachineRunner + 'static;

    /// System calls for a VM that load cells like ckb-script's, but faster. `dep` names a cell dep.
    fn cell_loads(_sources: PageSources, _dep: fn(u32) -> DataPieceId) -> Option<CallsOf<Self>> {
        None
    }

    /// Runs `attempt`, and again if the first result is discarded. Each call of `attempt` starts from
    /// scratch.
    fn attempt<T>(&self, attempt: impl FnMut() -> T) -> T;

    /// Cycles of the successful attempt since the last call. `None` if a single machine runs everything.
    fn take_counts(&self) -> Option<TierCycles>;
}

/// Only ckb-vm's own machine, as in ckb: `AsmMachine` on Linux with x86-64, elsewhere the Rust one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Interpreter;

impl Engine for Interpreter {
    type Machine = Machine;

    fn attempt<T>(&self, mut attempt: impl FnMut() -> T) -> T {
        attempt()
    }

    fn take_counts(&self) -> Option<TierCycles> {
        None
    }
}
