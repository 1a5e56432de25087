//! Cycles: that what was charged is what was used wherever somebody can tell, and that the cycle limit is checked in time.

use std::collections::HashMap;

use antares_ir::{Block, Cfg, Charge, Function, Terminator};
use antares_program::{BlockId, FunctionId};

/// The first block at which what was charged depends on the path to it, or is not balanced where the function is left.
#[must_use]
pub fn unbalanced(function: &Function) -> Option<BlockId> {
    // By block: cycles that were charged and not used, as it is entered.
    let mut ahead: HashMap<BlockId, i128> = HashMap::from([(BlockId(0), 0)]);
    let mut open = vec![BlockId(0)];
    while let Some(id) = open.pop() {
        let block = &function.blocks[id.0 as usize];
        let charged = block.charged().unwrap_or(block.cycles);
        let after = ahead[&id] + i128::from(charged) - i128::from(block.cycles);
        if after != 0 && !stays(block) {
            return Some(id);
        }
        for next in block.terminator.successors() {
            match ahead.insert(next, after) {
                None => open.push(next),
                Some(known) if known != after => return Some(next),
                Some(_) => {}
            }
        }
    }
    None
}

/// Whether nobody but the function's blocks can tell what was charged behind a block.
fn stays(block: &Block) -> bool {
    matches!(block.terminator, Terminator::Jump(_) | Terminator::Branch { .. })
}

/// The first block that defers a charge outside of a bounded loop, or leaves one with charges that are deferred and not made, or
/// makes such charges for another function.
pub(super) fn lost(function: &Function) -> Option<BlockId> {
    let ids = || (0..).map(BlockId).zip(&function.blocks);
    let loop_of = |id: BlockId| function.loops.iter().position(|versioned| versioned.has(id));
    let makes = |id: BlockId| match function.blocks[id.0 as usize].charge {
        Charge::OfDeferred { callee, .. } => Some(callee),
        _ => None,
    };
    let is_deferred = |(_, block): &(BlockId, &Block)| block.charge == Charge::Deferred;
    let mut deferring: Vec<usize> = Vec::new();
    for (id, _) in ids().filter(is_deferred) {
        match loop_of(id) {
            Some(of) => deferring.push(of),
            None => return Some(id),
        }
    }
    let mut callees: HashMap<usize, FunctionId> = HashMap::new();
    ids().find_map(|(id, block)| {
        let of = loop_of(id).filter(|of| deferring.contains(of));
        let is_kept = block.terminator.successors().into_iter().all(|next| match (makes(next), of) {
            (Some(callee), Some(of)) => *callees.entry(of).or_insert(callee) == callee,
            (Some(_), None) => false,
            (None, Some(of)) => function.loops[of].has(next),
            (None, None) => true,
        });
        (!is_kept).then_some(id)
    })
}

/// The first block in a cycle of the control flow, bounded loops aside, without a cycle-limit check; or one that leaves the function without.
pub(super) fn unlimited(function: &Function) -> Option<BlockId> {
    let blocks = &function.blocks;
    let cfg = Cfg::of(blocks);
    let reached = cfg.reverse_postorder();
    let ids = || (0..).map(BlockId);
    let unchecked = |id: &BlockId| {
        let block = &blocks[id.0 as usize];
        let leaves = match block.terminator {
            Terminator::Ecall { .. } | Terminator::Exit { .. } | Terminator::TailCall { .. } => true,
            Terminator::JumpIndirect { may_call, .. } => may_call,
            Terminator::Return { .. } => true,
            _ => false,
        };
        leaves && !block.is_metered
    };
    // Where no path leads nothing runs.
    if let Some(id) = reached.iter().map(|block| BlockId::at(*block)).find(unchecked) {
        return Some(id);
    }
    // Takes away blocks that nothing leads to any more: what is left is in a cycle, or behind one.
    let is_open = |from: usize, to: usize| {
        let [from, to] = [from, to].map(BlockId::at);
        let is_bounded = function.loops.iter().any(|versioned| versioned.header == to && versioned.has(from));
        !is_bounded && !blocks[to.0 as usize].is_metered
    };
    let mut entries = vec![0_usize; blocks.len()];
    for &from in reached {
        cfg.successors(from).iter().filter(|to| is_open(from, **to)).for_each(|to| entries[*to] += 1);
    }
    let mut free: Vec<usize> = reached.iter().copied().filter(|block| entries[*block] == 0).collect();
    while let Some(from) = free.pop() {
        for &to in cfg.successors(from).iter().filter(|to| is_open(from, **to)) {
            entries[to] -= 1;
            if entries[to] == 0 {
                free.push(to);
            }
        }
    }
    ids().zip(entries).find(|(_, entries)| *entries > 0).map(|(id, _)| id)
}
