//! Makes computed jumps of a function share blocks. If each of `n` labels jumps to every other by itself, the
//! function has `n * n` edges, and analyses need time and memory in proportion. Through one shared block
//! there are `2 * n`.

use std::{collections::HashMap, sync::Arc};

use antares_ir as ir;
use antares_program::{Block, BlockId, Function, GuestAddr, Instruction, Reg, Terminator};

/// Maximum edges of computed jumps in a function without shared blocks: that of 256 labels with a dispatch
/// each.
const OWN_EDGES_MAX: usize = 1 << 16;

/// Additional edges for each block of a function with more edges: jumps through each register to each block.
const EDGES_PER_BLOCK_MAX: usize = 32;

/// The common properties of jumps that share a block: address register, offset, targets, and whether a table
/// lists the address or the jump is a return.
type Key = (Reg, i64, Option<bool>, *const BlockId);

/// How the jumps of a function become jumps to shared blocks.
#[derive(Default)]
pub(crate) struct SharedJumps<'a> {
    /// By index of a block: its replacement terminator.
    pub(crate) ends: HashMap<usize, ir::Terminator>,
    /// The shared blocks, which follow the function's own: the first of the jumps to each.
    pub(crate) jumps: Vec<(GuestAddr, &'a Instruction, &'a Terminator)>,
}

impl<'a> SharedJumps<'a> {
    /// The shared jumps of `function`: none if it has few edges.
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
            // A jump that also writes a register does not share a block.
            let key = (i.rd == Reg::ZERO).then_some((i.rs1, i.imm, is_table, targets.as_ptr()));
            let place = key.and_then(|key| known.get(&key).copied());
            let end = match (place, key) {
                (Some(place), _) => ir::Terminator::Jump(place),
                // No compiler emits that many different jumps.
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

/// The targets of a computed jump at the end of `block` inside the function, and for one that is not a
/// return, whether a table lists them.
fn targets(block: &Block) -> Option<(Option<bool>, &Arc<[BlockId]>)> {
    let targets = match &block.terminator {
        Terminator::IndirectJump { candidates, is_table } => (Some(*is_table), candidates),
        Terminator::Return { locals } => (None, locals),
        _ => return None,
    };
    (!targets.1.is_empty()).then_some(targets)
}
