//! Counters of a counted build: which way the guest's branches went, and where computed jumps and calls went.
//! The rule is that of antares-abi's `counters.rs`, by guest addresses alone.

use antares_abi::{COUNTER_FACTOR, COUNTERS_OFFSET, branch_counter, jump_counter};
use antares_ir::{Block, Terminator};
use antares_program::{BlockId, FunctionId};

use crate::{
    assembler::{Gpr, Label, Mem, Shift},
    fitted::fitted,
    function::{Cold, FunctionEmitter},
    registers::BASE,
};

/// Blocks of ours behind each other, at most.
const BETWEEN_MAX: usize = 8;

impl FunctionEmitter<'_, '_> {
    /// The counter of the branch at the end of `block` that goes to `to` and not to `other`; none if nothing
    /// is counted, or the branch is one of ours: guards of loops and comparisons of targets take no cycles.
    pub(crate) fn branch_counter(&self, block: &Block, to: BlockId, other: BlockId) -> Option<Mem> {
        let bits = self.context.counter_bits.filter(|_| block.cycles > 0)?;
        let blocks = [to, other].map(|id| &self.ir.blocks[id.0 as usize]);
        if blocks.into_iter().any(is_promoted) {
            return None;
        }
        let [to, other] = [to, other].map(|id| self.guest_target(id));
        Some(Mem::at(BASE, fitted(COUNTERS_OFFSET + branch_counter(to, other, bits))))
    }

    /// The guest address that an edge to `to` leads to: blocks of ours on the way, which take no cycles, may
    /// have any.
    fn guest_target(&self, to: BlockId) -> u64 {
        let mut block = &self.ir.blocks[to.0 as usize];
        for _ in 0..BETWEEN_MAX {
            match block.terminator {
                Terminator::Jump(next) if block.cycles == 0 => block = &self.ir.blocks[next.0 as usize],
                _ => break,
            }
        }
        block.pc.0
    }

    /// Where to jump to come to `to`, from a branch that could have gone to `other`.
    pub(crate) fn counted_target(&mut self, block: &Block, to: BlockId, other: BlockId) -> Label {
        let Some(counter) = self.branch_counter(block, to, other) else { return self.target(to) };
        let at = self.code.asm.label();
        self.cold.push(Cold::Count(at, counter, to));
        at
    }

    /// Counts a call by address, which was compared with `callee`, as one that went there.
    pub(crate) fn count_promoted(&mut self, block: &Block, callee: FunctionId) {
        let Some(bits) = self.context.counter_bits.filter(|_| is_promoted(block)) else { return };
        let entry = self.context.module.functions[callee.0 as usize].entry.0;
        let counter = Mem::at(BASE, fitted(COUNTERS_OFFSET + jump_counter(entry, bits)));
        self.code.asm.count_at(counter);
    }

    /// Counts that a jump or call goes to the guest address in rax, which stays there; rcx is lost.
    pub(crate) fn count_jump(&mut self) {
        let Some(bits) = self.context.counter_bits else { return };
        let asm = &mut self.code.asm;
        asm.mov_number(Gpr::RCX, COUNTER_FACTOR.cast_signed());
        asm.imul(Gpr::RCX, Gpr::RAX);
        asm.shift_number(Shift::Shr, Gpr::RCX, 64 - bits);
        asm.count_at(Mem::indexed(BASE, Gpr::RCX, fitted(COUNTERS_OFFSET)));
    }
}

/// Whether it calls by name what the guest calls by address: the branch to it compares addresses.
fn is_promoted(block: &Block) -> bool {
    let calls = matches!(
        block.terminator,
        Terminator::Call { .. }
            | Terminator::TailCall { .. }
            | Terminator::CallIndirect { .. }
            | Terminator::JumpIndirect { .. }
    );
    block.cycles == 0 && calls
}
