//! The control flow of a function in both directions, and the bounded loop of each block. All proofs of a
//! function share it. The time is proportional to edges and to the blocks of all bounded loops; passes put
//! each block into at most one.

use antares_ir::{Cfg, Function};
use antares_program::BlockId;

/// A function's edges and the positions of its bounded loops.
pub(super) struct Flow {
    pub(super) cfg: Cfg,
    /// By block: the first bounded loop that claims it.
    loops: Vec<Option<usize>>,
    /// By header: the maximum length of bounded loops that begin there.
    reach: Vec<u32>,
}

impl Flow {
    pub(super) fn of(function: &Function) -> Self {
        let mut loops = vec![None; function.blocks.len()];
        let mut reach = vec![0; function.blocks.len()];
        for (number, witness) in function.loops.iter().enumerate() {
            let first = witness.header.0 as usize;
            for of in loops.iter_mut().skip(first).take(witness.blocks as usize) {
                of.get_or_insert(number);
            }
            if let Some(reach) = reach.get_mut(first) {
                *reach = witness.blocks.max(*reach);
            }
        }
        Self { cfg: Cfg::of(&function.blocks), loops, reach }
    }

    /// The index of the bounded loop around a block.
    pub(super) fn loop_of(&self, block: BlockId) -> Option<usize> {
        self.loops[block.0 as usize]
    }

    /// Whether the edge goes from inside a bounded loop back to its header.
    pub(super) fn goes_on(&self, from: usize, to: usize) -> bool {
        from.checked_sub(to).is_some_and(|position| position < self.reach[to] as usize)
    }
}
