//! Registers in hand of which the state holds the same value: they need not be written there again.
//!
//! What comes from the state is in it until it changes, and so is what was handed over, as nobody else changes it there: a callee that
//! changes a register that is read afterwards passes it back. Links and `sp` come back without being passed back, so what the state holds
//! of them is not known.

use std::cell::Cell;

use antares_ir::{self as ir, Block, Terminator};
use antares_program::{Reg, RegSet};

use crate::emit::{Emitter, signature::Signature};

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
        let handed = emitter.signature(function.id).handed.iter().copied().fold(RegSet::EMPTY, RegSet::with);
        let mut current = Self { starts: vec![moved; function.blocks.len()], now: Cell::default(), moved };
        current.starts[0] = moved.and(handed);
        let (mut open, mut is_open) = (vec![0], vec![false; function.blocks.len()]);
        let mut is_seen = is_open.clone();
        while let Some(index) = open.pop() {
            (is_open[index], is_seen[index]) = (false, true);
            let block = &function.blocks[index];
            current.start(index);
            current.write(block);
            current.end(emitter, block);
            for to in block.terminator.successors() {
                let to = to.0 as usize;
                let before = current.starts[to];
                current.starts[to] = before.and(current.now.get());
                let is_new = current.starts[to] != before || !is_seen[to];
                if is_new && !std::mem::replace(&mut is_open[to], true) {
                    open.push(to);
                }
            }
        }
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
        let handed = signature.handed.iter().copied().fold(self.now.get(), RegSet::with);
        let kept = signature.results.iter().copied().fold(handed, RegSet::without);
        self.set(signature.overflow.iter().copied().fold(kept, RegSet::with));
    }

    /// Behind a call by address before which `spilled` were handed over, of which any of `changed` may have changed; `reloaded` are
    /// taken back.
    pub(crate) fn call_indirect(&self, spilled: RegSet, changed: RegSet, reloaded: RegSet) {
        self.set(self.now.get().or(spilled).minus(changed).or(reloaded));
    }

    /// Behind a system call that was handed `uses`.
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
