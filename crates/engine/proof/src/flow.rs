//! How control flows in a function, both ways, and which bounded loop each block is said to be in: made once,
//! for all that ask. Takes time in proportion to edges and to the blocks of all bounded loops, of which
//! passes put each block into one.

use antares_ir::{Cfg, Function};
use antares_program::BlockId;

/// A function's edges and the places of its bounded loops.
pub(super) struct Flow {
    pub(super) cfg: Cfg,
    /// By block: the first bounded loop that says it has it.
    loops: Vec<Option<usize>>,
    /// By block: the most blocks that a bounded loop says it has behind this header.
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

    /// The bounded loop that a block is in: its place among the function's.
    pub(super) fn loop_of(&self, block: BlockId) -> Option<usize> {
        self.loops[block.0 as usize]
    }

    /// Whether an edge goes back to the header of a bounded loop from inside of it.
    pub(super) fn goes_on(&self, from: usize, to: usize) -> bool {
        from.checked_sub(to).is_some_and(|position| position < self.reach[to] as usize)
    }
}
