//! Counters of a counted build: the outcomes of guest branches and the targets of computed jumps and calls.
//! antares-abi's `counters.rs` defines their indexes, which depend only on guest addresses.

use antares_abi::{COUNTER_FACTOR, COUNTERS_OFFSET, branch_counter, jump_counter};
use antares_ir::{Block, Terminator};
use antares_program::{BlockId, FunctionId};

use crate::{
    assembler::{Gpr, Label, Mem, Shift},
    fitted::fitted,
    function::{Cold, FunctionEmitter},
    registers::BASE,
};

/// Maximum inserted blocks in a row to follow.
const BETWEEN_MAX: usize = 8;

impl FunctionEmitter<'_, '_> {
    /// The counter of the branch at the end of the block that goes to `to` and not to `other`. None without
    /// counters, or if the compiler inserted the branch: loop guards and target comparisons take no cycles.
    pub(crate) fn branch_counter(&self, to: BlockId, other: BlockId) -> Option<Mem> {
        let bits = self.context.counter_bits.filter(|_| self.block().cycles > 0)?;
        let blocks = [to, other].map(|id| &self.ir.blocks[id.0 as usize]);
        if blocks.into_iter().any(is_promoted) {
            return None;
        }
        let [to, other] = [to, other].map(|id| self.guest_target(id));
        Some(Mem::at(BASE, fitted(COUNTERS_OFFSET + branch_counter(to, other, bits))))
    }

    /// The guest address to which an edge to `to` leads. Skips inserted blocks, which take no cycles and may
    /// have any address.
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

    /// The label through which a branch reaches `to` instead of `other`: counting code, or the block itself.
    pub(crate) fn counted_target(&mut self, to: BlockId, other: BlockId) -> Label {
        let Some(counter) = self.branch_counter(to, other) else { return self.target(to) };
        let at = self.code.asm.label();
        self.cold.push(Cold::Count(at, counter, to));
        at
    }

    /// Counts a call by address whose target was compared with `callee` as a call to `callee`.
    pub(crate) fn count_promoted(&mut self, callee: FunctionId) {
        let Some(bits) = self.context.counter_bits.filter(|_| is_promoted(self.block())) else { return };
        let entry = self.context.module.functions[callee.0 as usize].entry.0;
        let counter = Mem::at(BASE, fitted(COUNTERS_OFFSET + jump_counter(entry, bits)));
        self.code.asm.count_at(counter);
    }

    /// Counts a jump or call to the guest address in rax. Preserves rax and clobbers rcx.
    pub(crate) fn count_jump(&mut self) {
        let Some(bits) = self.context.counter_bits else { return };
        let asm = &mut self.code.asm;
        asm.mov_number(Gpr::RCX, COUNTER_FACTOR.cast_signed());
        asm.imul(Gpr::RCX, Gpr::RAX);
        asm.shift_number(Shift::Shr, Gpr::RCX, 64 - bits);
        asm.count_at(Mem::indexed(BASE, Gpr::RCX, fitted(COUNTERS_OFFSET)));
    }
}

/// Whether the block makes a direct call that replaces a guest call by address, after a target comparison.
fn is_promoted(block: &Block) -> bool {
    let by_address =
        matches!(block.terminator, Terminator::CallIndirect { .. } | Terminator::JumpIndirect { .. });
    block.cycles == 0 && (by_address || block.terminator.callee().is_some())
}
