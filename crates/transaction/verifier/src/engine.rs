//! The seam to the machine that runs the scripts.

use ckb_script::types::Machine;
use ckb_vm::DefaultMachineRunner;

/// Cycles by who ran them. Only those that count for the outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierCycles {
    /// In native code.
    pub native_cycles: u64,
    /// In an interpreter.
    pub interpreted_cycles: u64,
    /// Why the first attempt did not count, if there was another.
    pub restarted: Option<&'static str>,
}

/// A machine, and how a script group is tried on it.
pub trait Engine {
    /// The machine that ckb-script's scheduler makes for each VM.
    type Machine: DefaultMachineRunner + 'static;

    /// Runs `attempt`, and again where the first one does not count. Each call of `attempt` starts afresh.
    fn attempt<T>(&self, attempt: impl FnMut() -> T) -> T;

    /// Cycles of the attempt that counted, since the last call. `None` where one machine runs everything.
    fn take_counts(&self) -> Option<TierCycles>;
}

/// ckb-vm's own machine alone, which ckb itself runs: `AsmMachine` on Linux with x86-64, elsewhere the one in
/// Rust.
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
