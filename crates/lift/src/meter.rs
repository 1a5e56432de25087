//! Where the cycle limit is looked at: once in every cycle of the control flow, before every syscall, and wherever a
//! function is left.
//!
//! A script beyond its limit has no other effect, so the look may come late; it only must come. Recursion passes a block
//! that calls; loops pass a block that is the target of an edge back. A look at each call and return finds cycles that were
//! used up inside a function while it is still inside: a profile asks for no more.

use crate::{
    flow,
    ir::{Function, Module, Terminator},
};

/// Marks the blocks that look.
pub(crate) fn place(module: &mut Module) {
    module.functions.iter_mut().for_each(place_in);
}

fn place_in(function: &mut Function) {
    let successors = flow::successors(function.blocks.iter().map(|block| &block.terminator));
    for (_, target) in flow::back_edges(&successors) {
        function.blocks[target].is_metered = !function.blocks[target].is_bounded;
    }
    for block in &mut function.blocks {
        block.is_metered |= !stays(&block.terminator);
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
