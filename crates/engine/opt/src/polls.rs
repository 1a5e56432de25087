//! Places polls of the cycle limit: once in every cycle of the control flow, before every syscall, and at
//! exits of functions.
//!
//! A script beyond its limit has no other effect, so a poll may come late. Recursion returns, or overflows
//! the native stack; loops pass their headers. Polls at each return, and at each call unless another one was
//! a few cycles ago, attribute used cycles to the current function. Profiles need no more.

use antares_ir::{Cfg, Function, Module, Terminator};

/// Minimum cycles since the last poll, or since function entry, for a poll before a call. A profile
/// attributes fewer cycles to the callee.
const CYCLES_BEFORE_CALLS_MIN: u64 = 16;

pub(crate) fn place(module: &mut Module) {
    module.functions.iter_mut().for_each(place_in);
}

fn place_in(function: &mut Function) {
    let cfg = Cfg::of(&function.blocks);
    for &(_, target) in cfg.back_edges() {
        function.blocks[target].is_metered = !function.blocks[target].is_bounded;
    }
    // Maximum unpolled cycles at the start of each block.
    let mut unseen = vec![0_u64; function.blocks.len()];
    for &index in cfg.reverse_postorder() {
        let block = &mut function.blocks[index];
        let cycles = if block.is_metered { 0 } else { unseen[index] + block.cycles };
        let calls = block.terminator.is_call();
        block.is_metered |= if calls { cycles >= CYCLES_BEFORE_CALLS_MIN } else { !stays(&block.terminator) };
        let left = if block.is_metered || calls { 0 } else { cycles };
        cfg.successors(index).iter().for_each(|&to| unseen[to] = unseen[to].max(left));
    }
}

/// Whether control stays in the function or bails out.
fn stays(terminator: &Terminator) -> bool {
    match terminator {
        Terminator::Jump(_) | Terminator::Branch { .. } | Terminator::Leave => true,
        Terminator::JumpIndirect { may_call, .. } => !may_call,
        _ => false,
    }
}
