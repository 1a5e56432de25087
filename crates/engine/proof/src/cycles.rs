//! Proves that charged cycles equal used ones wherever code outside can observe them, and that code checks
//! the cycle limit in time. Each query processes blocks and edges once.

use antares_ir::{Block, Charge, Function, Terminator};
use antares_program::{BlockId, FunctionId};

use crate::flow::Flow;

/// The first block at which the charged cycles depend on the path, or which exits with unbalanced charges.
#[must_use]
pub fn unbalanced(function: &Function) -> Option<BlockId> {
    // By block: charged but unused cycles at entry.
    let mut ahead: Vec<Option<i128>> = vec![None; function.blocks.len()];
    ahead[0] = Some(0);
    let mut open = vec![(BlockId(0), 0)];
    while let Some((id, before)) = open.pop() {
        let block = &function.blocks[id.0 as usize];
        let charged = block.charged().unwrap_or(block.cycles);
        let after = before + i128::from(charged) - i128::from(block.cycles);
        if after != 0 && !stays(block) {
            return Some(id);
        }
        for next in block.terminator.successors() {
            match ahead[next.0 as usize].replace(after) {
                None => open.push((next, after)),
                Some(known) if known != after => return Some(next),
                Some(_) => {}
            }
        }
    }
    None
}

/// Whether only the function's own blocks observe the charged cycles after a block.
fn stays(block: &Block) -> bool {
    matches!(block.terminator, Terminator::Jump(_) | Terminator::Branch { .. })
}

/// The first block that defers a charge outside a bounded loop, leaves one without making its deferred
/// charges, or makes them for another function.
pub(super) fn lost(function: &Function, flow: &Flow) -> Option<BlockId> {
    let ids = || (0..).map(BlockId).zip(&function.blocks);
    let makes = |id: BlockId| match function.blocks[id.0 as usize].charge {
        Charge::OfDeferred { callee, .. } => Some(callee),
        _ => None,
    };
    let is_deferred = |(_, block): &(BlockId, &Block)| block.charge == Charge::Deferred;
    let mut defers = vec![false; function.loops.len()];
    for (id, _) in ids().filter(is_deferred) {
        match flow.loop_of(id) {
            Some(of) => defers[of] = true,
            None => return Some(id),
        }
    }
    let mut callees: Vec<Option<FunctionId>> = vec![None; function.loops.len()];
    ids().find_map(|(id, block)| {
        let of = flow.loop_of(id).filter(|of| defers[*of]);
        let is_kept = block.terminator.successors().all(|next| match (makes(next), of) {
            (Some(callee), Some(of)) => *callees[of].get_or_insert(callee) == callee,
            (Some(_), None) => false,
            (None, Some(of)) => function.loops[of].has(next),
            (None, None) => true,
        });
        (!is_kept).then_some(id)
    })
}

/// The first block without a cycle-limit check that is in a cycle of the control flow, except bounded loops,
/// or that exits from the function.
pub(super) fn unlimited(function: &Function, flow: &Flow) -> Option<BlockId> {
    let (blocks, cfg) = (&function.blocks, &flow.cfg);
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
    // Unreachable blocks do not run.
    if let Some(id) = reached.iter().map(|block| BlockId::at(*block)).find(unchecked) {
        return Some(id);
    }
    // Removes blocks without remaining predecessors. The rest are in a cycle or after one.
    let is_open = |from: usize, to: usize| !flow.goes_on(from, to) && !blocks[to].is_metered;
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
