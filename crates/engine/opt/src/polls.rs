//! Where the cycle limit is polled: once in every cycle of the control flow, before every syscall, and
//! wherever a function is left.
//!
//! A script beyond its limit has no other effect, so the poll may come late; it only must come. Recursion
//! returns, or it uses up the native stack; loops run through their headers. A poll at each return, and at
//! each call unless there was one a few cycles ago, finds cycles that were used up inside a function while it
//! is still inside: a profile asks for no more.

use antares_ir::{Cfg, Function, Module, Terminator};

use crate::Analyses;

/// Fewer cycles than this since the last poll, or since the function's start, are not worth one before a
/// call: a profile finds them in what is called.
const CYCLES_BEFORE_CALLS_MIN: u64 = 16;

/// Marks the blocks that poll.
pub(crate) fn place(module: &mut Module, analyses: &mut Analyses) {
    module.functions.iter_mut().for_each(|function| place_in(function, &analyses.cfg(function)));
}

fn place_in(function: &mut Function, cfg: &Cfg) {
    for &(_, target) in cfg.back_edges() {
        function.blocks[target].is_metered = !function.blocks[target].is_bounded;
    }
    // What no poll has seen where each block begins, at most.
    let mut unseen = vec![0_u64; function.blocks.len()];
    for &index in cfg.reverse_postorder() {
        let block = &mut function.blocks[index];
        let cycles = if block.is_metered { 0 } else { unseen[index] + block.cycles };
        let calls = matches!(block.terminator, Terminator::Call { .. } | Terminator::CallIndirect { .. });
        block.is_metered |= if calls { cycles >= CYCLES_BEFORE_CALLS_MIN } else { !stays(&block.terminator) };
        let left = if block.is_metered || calls { 0 } else { cycles };
        cfg.successors(index).iter().for_each(|&to| unseen[to] = unseen[to].max(left));
    }
}

/// Whether what follows is in the function too, or native code is left for good.
fn stays(terminator: &Terminator) -> bool {
    match terminator {
        Terminator::Jump(_) | Terminator::Branch { .. } | Terminator::Leave => true,
        Terminator::JumpIndirect { may_call, .. } => !may_call,
        _ => false,
    }
}
