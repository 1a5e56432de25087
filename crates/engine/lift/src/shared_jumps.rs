//! Computed jumps of a function that share a block. Where each of `n` labels jumps to each other by itself
//! there are `n * n` edges, and everybody who follows edges takes a time and a memory that grow as they do;
//! through one block there are `2 * n`.

use std::{collections::HashMap, sync::Arc};

use antares_ir as ir;
use antares_program::{Block, BlockId, Function, GuestAddr, Instruction, Reg, Terminator};

/// Edges of all computed jumps of a function up to which each jumps by itself: 256 labels with a dispatch
/// each have as many.
const OWN_EDGES_MAX: usize = 1 << 16;

/// What a function with more of them may have beside, for each of its blocks: jumps through each register to
/// each block.
const EDGES_PER_BLOCK_MAX: usize = 32;

/// What jumps have in common that share a block: the register with the address, what is added to it, whether
/// the address is one that a table lists, or a return's, and where they may go.
type Key = (Reg, i64, Option<bool>, *const BlockId);

/// How the jumps of a function become jumps to shared blocks.
#[derive(Default)]
pub(crate) struct SharedJumps<'a> {
    /// By index of a block: how it ends instead.
    pub(crate) ends: HashMap<usize, ir::Terminator>,
    /// The shared blocks, which follow the function's own: the first of the jumps that come here.
    pub(crate) jumps: Vec<(GuestAddr, &'a Instruction, &'a Terminator)>,
}

impl<'a> SharedJumps<'a> {
    /// Those of `function`: none if it has few edges.
    pub(crate) fn of(function: &'a Function) -> Self {
        let mut shared = Self::default();
        let edges: usize = function.blocks.iter().filter_map(targets).map(|(_, targets)| targets.len()).sum();
        if edges <= OWN_EDGES_MAX {
            return shared;
        }
        let mut known: HashMap<Key, BlockId> = HashMap::new();
        let mut edges_left = OWN_EDGES_MAX + EDGES_PER_BLOCK_MAX * function.blocks.len();
        for (index, block) in function.blocks.iter().enumerate() {
            let Some((is_table, targets)) = targets(block) else { continue };
            let Some((pc, i)) = block.instructions.last() else { continue };
            // Who writes a register before it jumps does so by itself.
            let key = (i.rd == Reg::ZERO).then_some((i.rs1, i.imm, is_table, targets.as_ptr()));
            let place = key.and_then(|key| known.get(&key).copied());
            let end = match (place, key) {
                (Some(place), _) => ir::Terminator::Jump(place),
                // No compiler writes so many different jumps.
                (None, _) if targets.len() > edges_left => ir::Terminator::Leave,
                (None, key) => {
                    edges_left -= targets.len();
                    let Some(key) = key else { continue };
                    let place = BlockId::at(function.blocks.len() + shared.jumps.len());
                    known.insert(key, place);
                    shared.jumps.push((*pc, i, &block.terminator));
                    ir::Terminator::Jump(place)
                }
            };
            shared.ends.insert(index, end);
        }
        shared
    }
}

/// Where a computed jump at the end of `block` may go inside of the function, and for one that is no return,
/// whether a table lists it.
fn targets(block: &Block) -> Option<(Option<bool>, &Arc<[BlockId]>)> {
    let targets = match &block.terminator {
        Terminator::IndirectJump { candidates, is_table } => (Some(*is_table), candidates),
        Terminator::Return { locals } => (None, locals),
        _ => return None,
    };
    (!targets.1.is_empty()).then_some(targets)
}
