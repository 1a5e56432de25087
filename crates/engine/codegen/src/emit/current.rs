//! Finds registers whose value the state already holds, so that spills can skip them.
//!
//! A value from the state stays in it until the register changes, and so does a value passed through it. No
//! other code changes it there: a callee that changes a register that is read later returns it. Links and
//! `sp` are restored without being returned, so their content in the state is unknown.

use std::cell::Cell;

use antares_ir::{
    self as ir, Block, Cfg, Terminator,
    dataflow::{self, Direction, Effort, Problem},
};
use antares_program::{Reg, RegSet};

use crate::emit::{Emitter, signature::Signature};

/// The dataflow problem: which registers the state keeps holding.
struct Held<'a, 'c, 'm> {
    current: &'a Current,
    emitter: &'a Emitter<'c, 'm>,
    blocks: &'a [Block],
}

impl Problem for Held<'_, '_, '_> {
    type Fact = RegSet;

    fn transfer(&self, block: usize, fact: &RegSet) -> RegSet {
        let (current, block) = (self.current, &self.blocks[block]);
        current.now.set(*fact);
        current.write(block);
        current.end(self.emitter, block);
        current.now.get()
    }

    fn meet(&self, _block: usize, _effort: Effort, known: &RegSet, other: &RegSet) -> RegSet {
        known.and(*other)
    }
}

/// The registers that the state holds, in each block of a function.
pub(crate) struct Current {
    /// By block, at its start.
    starts: Vec<RegSet>,
    /// At the position where code is emitted.
    now: Cell<RegSet>,
    /// Registers that the analysis tracks.
    moved: RegSet,
}

impl Current {
    /// Analyzes a function that moves the registers in `moved` between its own locations and the state.
    pub(crate) fn of(emitter: &Emitter, function: &ir::Function, moved: RegSet) -> Self {
        let moved = moved.minus(emitter.links).without(Reg::SP);
        let mut known = vec![None; function.blocks.len()];
        known[0] = Some(moved.and(emitter.signature(function.id).in_state));
        let mut current = Self { starts: Vec::new(), now: Cell::default(), moved };
        let problem = Held { current: &current, emitter, blocks: &function.blocks };
        let starts = dataflow::solve(&Cfg::of(&function.blocks), Direction::Forward, &problem, known);
        current.starts = starts.into_iter().map(|start| start.unwrap_or(moved)).collect();
        current
    }

    /// Whether the state holds the value of `register`.
    pub(crate) fn has(&self, register: Reg) -> bool {
        self.now.get().has(register)
    }

    pub(crate) fn start(&self, index: usize) {
        self.now.set(self.starts[index]);
    }

    /// Drops all facts.
    pub(crate) fn forget(&self) {
        self.now.set(RegSet::EMPTY);
    }

    /// Applies the register writes of `block`.
    pub(crate) fn write(&self, block: &Block) {
        self.set(block.writes.iter().fold(self.now.get(), |now, (register, _)| now.without(*register)));
    }

    /// Applies a call by `signature`.
    pub(crate) fn call(&self, signature: &Signature) {
        let now = self.now.get().or(signature.in_state);
        let kept = signature.results.iter().copied().fold(now, RegSet::without);
        self.set(signature.overflow.iter().copied().fold(kept, RegSet::with));
    }

    /// Applies a call by address: `spilled` were spilled before it, any of `changed` may have changed, and
    /// `reloaded` are reloaded after it.
    pub(crate) fn call_indirect(&self, spilled: RegSet, changed: RegSet, reloaded: RegSet) {
        self.set(self.now.get().or(spilled).minus(changed).or(reloaded));
    }

    /// Applies a system call that may read `uses`.
    pub(crate) fn ecall(&self, uses: RegSet) {
        self.set(self.now.get().or(uses).with(Reg::A0));
    }

    /// Applies the terminator of `block`.
    fn end(&self, emitter: &Emitter, block: &Block) {
        match &block.terminator {
            Terminator::Call { callee, .. } => self.call(emitter.signature(*callee)),
            Terminator::CallIndirect { live, .. } => {
                let changed = emitter.ir.indirect_changes;
                let reloaded = changed.and(*live);
                self.call_indirect(emitter.ir.indirect_params.or(reloaded), changed, reloaded);
            }
            Terminator::Ecall { uses, .. } => self.ecall(*uses),
            _ => {}
        }
    }

    fn set(&self, now: RegSet) {
        self.now.set(now.and(self.moved));
    }
}
