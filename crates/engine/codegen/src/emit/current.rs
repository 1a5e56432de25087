//! Registers of which the state holds the same value: they need not be spilled there again.
//!
//! What comes from the state is in it until it changes, and so is what was passed through it, as nobody else
//! changes it there: a callee that changes a register that is read afterwards passes it back. Links and `sp`
//! come back without being passed back, so what the state holds of them is not known.

use std::cell::Cell;

use antares_ir::{
    self as ir, Block, Cfg, Terminator,
    dataflow::{self, Direction, Effort, Problem},
};
use antares_program::{Reg, RegSet};

use crate::emit::{Emitter, signature::Signature};

/// Which registers the state keeps holding.
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

/// What is known in each block of a function.
pub(crate) struct Current {
    /// At each block's start.
    starts: Vec<RegSet>,
    /// Where code is being emitted.
    now: Cell<RegSet>,
    /// Registers that anything can be known of.
    moved: RegSet,
}

impl Current {
    /// For a function that moves the registers in `moved` between its own places and the state.
    pub(crate) fn of(emitter: &Emitter, function: &ir::Function, moved: RegSet) -> Self {
        let moved = moved.minus(emitter.links).without(Reg::SP);
        let in_state =
            emitter.signature(function.id).in_state.iter().copied().fold(RegSet::EMPTY, RegSet::with);
        let mut known = vec![None; function.blocks.len()];
        known[0] = Some(moved.and(in_state));
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

    /// At the start of block `index`.
    pub(crate) fn start(&self, index: usize) {
        self.now.set(self.starts[index]);
    }

    /// Where nothing is known.
    pub(crate) fn forget(&self) {
        self.now.set(RegSet::EMPTY);
    }

    /// Behind the operations of `block`.
    pub(crate) fn write(&self, block: &Block) {
        self.set(block.writes.iter().fold(self.now.get(), |now, (register, _)| now.without(*register)));
    }

    /// Behind a call by `signature`.
    pub(crate) fn call(&self, signature: &Signature) {
        let in_state = signature.in_state.iter().copied().fold(self.now.get(), RegSet::with);
        let kept = signature.results.iter().copied().fold(in_state, RegSet::without);
        self.set(signature.overflow.iter().copied().fold(kept, RegSet::with));
    }

    /// Behind a call by address before which `spilled` were spilled, of which any of `changed` may have
    /// changed; `reloaded` are reloaded.
    pub(crate) fn call_indirect(&self, spilled: RegSet, changed: RegSet, reloaded: RegSet) {
        self.set(self.now.get().or(spilled).minus(changed).or(reloaded));
    }

    /// Behind a system call that was given `uses`.
    pub(crate) fn ecall(&self, uses: RegSet) {
        self.set(self.now.get().or(uses).with(Reg::A0));
    }

    /// Behind the end of `block`.
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
