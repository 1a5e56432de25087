//! Stop conditions of a run: addresses, memory, system calls, cycles.

use std::{collections::BTreeSet, ops::Range};

use antares_vm::{Touch, touched};
use ckb_vm::{ckb_vm_definitions::instructions::Instruction, instructions::instruction_length};
use gdbstub::{common::Signal, target::ext::breakpoints::WatchKind};

use super::limits::PROGRAM_CHANGES_MAX;

/// A watched memory range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchRange {
    /// First byte.
    pub address: u64,
    /// Number of bytes.
    pub bytes: u64,
    /// The watched accesses.
    pub access: WatchKind,
}

impl WatchRange {
    pub(crate) fn meets(&self, address: u64, bytes: u64) -> bool {
        address < self.address.saturating_add(self.bytes) && self.address < address.saturating_add(bytes)
    }

    /// Whether it watches this kind of access, wherever it is.
    fn wants(&self, touch: &Touch) -> bool {
        match self.access {
            WatchKind::Write => touch.writes,
            WatchKind::Read => touch.reads,
            WatchKind::ReadWrite => true,
        }
    }
}

/// Why the script stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The step is complete; or the VM is outside of the addresses to step in.
    Stepped,
    /// A breakpoint here, or inside of two fused instructions.
    Breakpoint {
        /// Its address.
        address: u64,
    },
    /// Memory was accessed; backwards, the access comes next.
    Watch(WatchRange),
    /// A system call is next.
    Call(u64),
    /// A VM with another program resumes; backwards, it was suspended. Or other code was loaded.
    Program(usize),
    /// The requested cycles were spent.
    Cycles,
    /// A nonzero exit is next.
    FailingExit(i8),
    /// The script has exited.
    Exited(i8),
    /// The VM failed.
    Failed {
        /// The error.
        error: String,
        /// Linux's signal for it.
        fault: Signal,
        /// Whether the error was reported before.
        again: bool,
    },
    /// The beginning of the run.
    Beginning,
    /// The caller interrupted.
    Interrupted,
}

/// The system calls to stop at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Caught {
    /// None.
    #[default]
    None,
    /// All.
    All,
    /// Those with these numbers.
    Numbers(BTreeSet<u64>),
}

/// Stop conditions of a run.
#[derive(Clone, Debug, Default)]
pub struct Stops {
    breakpoints: BTreeSet<u64>,
    watches: Vec<WatchRange>,
    /// Stop before these system calls.
    pub caught: Caught,
    /// Stop once, before the first instruction after this many cycles of all VMs.
    pub cycles: Option<u64>,
    /// Stop at an instruction outside of this range.
    within: Option<Range<u64>>,
    /// The program whose symbols the debugger has; if present, stop at others.
    pub(crate) program: Option<usize>,
    /// Programs that caused stops, and the number of such stops since the last other one.
    seen: BTreeSet<usize>,
    pub(crate) changes: u32,
    /// Whether the run is part of a backward run, whose last stop counts.
    pub(crate) is_back: bool,
    /// Changes whenever code must be decoded again.
    pub(crate) generation: u64,
}

impl Stops {
    /// Stops at this address, in any VM.
    pub fn add_breakpoint(&mut self, address: u64) {
        self.breakpoints.insert(address);
        self.generation += 1;
    }

    /// Removes the breakpoint; returns whether it existed.
    pub fn remove_breakpoint(&mut self, address: u64) -> bool {
        self.generation += 1;
        self.breakpoints.remove(&address)
    }

    /// Watches memory, in any VM.
    pub fn add_watch(&mut self, watch: WatchRange) {
        self.watches.push(watch);
        self.generation += 1;
    }

    /// Removes the watch; returns whether it existed.
    pub fn remove_watch(&mut self, watch: &WatchRange) -> bool {
        self.generation += 1;
        let found = self.watches.iter().position(|known| known == watch);
        found.map(|index| self.watches.swap_remove(index)).is_some()
    }

    /// The same stops for a backward run, without the cycle limit.
    pub(crate) fn backwards(&self) -> Self {
        Self { cycles: None, is_back: true, ..self.clone() }
    }

    /// Stops at an instruction outside of `range`; `None` removes the condition.
    pub(crate) fn stay_within(&mut self, range: Option<Range<u64>>) {
        self.within = range;
        self.generation += 1;
    }

    /// Stops when a VM with another program resumes.
    pub(crate) fn know(&mut self, program: usize) {
        self.program = Some(program);
        self.seen.insert(program);
        self.changes += 1;
    }

    /// Whether this program causes no stop.
    pub(crate) fn knows(&self, program: usize) -> bool {
        let is_enough = self.changes >= PROGRAM_CHANGES_MAX && self.seen.contains(&program);
        is_enough || self.program.is_none_or(|known| known == program)
    }

    pub(crate) fn is_out(&self, pc: u64) -> bool {
        self.within.as_ref().is_some_and(|range| !range.contains(&pc))
    }

    /// The breakpoint at this instruction; if it is a fused pair, also at the second one.
    pub(crate) fn breakpoint(&self, pc: u64, instruction: Option<Instruction>) -> Option<u64> {
        let length = instruction.map_or(1, |instruction| u64::from(instruction_length(instruction)).max(1));
        self.breakpoints.range(pc..pc.saturating_add(length)).next().copied()
    }

    /// Whether the assembly must stop before `instruction`.
    pub(crate) fn cuts(&self, pc: u64, instruction: Instruction) -> bool {
        self.is_out(pc)
            || self.breakpoint(pc, Some(instruction)).is_some()
            || (!self.watches.is_empty() && self.may_hit(instruction))
    }

    fn may_hit(&self, instruction: Instruction) -> bool {
        touched(instruction, &[0; 32])
            .is_some_and(|touch| self.watches.iter().any(|watch| watch.wants(&touch)))
    }

    /// The watch that `instruction` will hit.
    pub(crate) fn hit(&self, instruction: Instruction, registers: &[u64; 32]) -> Option<WatchRange> {
        if self.watches.is_empty() {
            return None;
        }
        let touch = touched(instruction, registers)?;
        let hits =
            |watch: &&WatchRange| watch.wants(&touch) && watch.meets(touch.address, touch.bytes.into());
        self.watches.iter().find(hits).copied()
    }

    /// Watches for writes, which system calls may hit, too.
    pub(crate) fn written(&self) -> impl Iterator<Item = &WatchRange> {
        self.watches.iter().filter(|watch| watch.access != WatchKind::Read)
    }

    pub(crate) fn catches(&self, number: u64) -> bool {
        match &self.caught {
            Caught::None => false,
            Caught::All => true,
            Caught::Numbers(numbers) => numbers.contains(&number),
        }
    }
}
