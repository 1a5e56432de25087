//! Which functions the host may enter in the middle of a run, or another library may call: those that are called where native code may be
//! left with all registers, and in open modules all that are found by their address.

use antares_ir::{Module, Terminator};
use antares_program::{Reg, RegSet};

/// Marks the functions that the host may enter after a script went on without native code: those that are called by
/// functions in which that may happen, and all that can be found by their address.
///
/// What has an entry for the host can be found by its address too, by whatever computes it: so all of these count as exposed. What
/// returns through another register than `ra` has none.
pub(crate) fn mark(module: &mut Module) {
    let mut has_changed = true;
    while has_changed {
        let leaves = leavers(module);
        // Other libraries call what is exposed, and want all that it changes.
        if !module.is_open && !leaves.contains(&true) {
            return;
        }
        let mut is_resumable: Vec<bool> =
            module.functions.iter().map(|function| function.is_exposed).collect();
        for (function, _) in module.functions.iter().zip(&leaves).filter(|(_, leaves)| **leaves) {
            for block in &function.blocks {
                if let Terminator::Call { callee, .. } | Terminator::TailCall { callee, .. } =
                    block.terminator
                {
                    let is_found = module.functions[callee.0 as usize].link == Reg::RA;
                    is_resumable[callee.0 as usize] |= is_found;
                }
            }
        }
        has_changed = false;
        for (function, is_resumable) in module.functions.iter_mut().zip(is_resumable) {
            has_changed |= is_resumable && !function.is_exposed;
            function.is_resumable = is_resumable;
            function.is_exposed |= is_resumable;
        }
    }
}

/// By function: whether native code may be left in it, or in what it calls, with all registers.
fn leavers(module: &Module) -> Vec<bool> {
    let is_dispatch = |terminator: &Terminator| match terminator {
        Terminator::CallIndirect { .. } => true,
        Terminator::JumpIndirect { may_call, .. } => *may_call,
        _ => false,
    };
    let mut leaves = vec![false; module.functions.len()];
    let mut exposed_leaves = module.is_open;
    let mut has_changed = true;
    while has_changed {
        has_changed = false;
        for (index, function) in module.functions.iter().enumerate() {
            let now = function.blocks.iter().any(|block| match &block.terminator {
                Terminator::Ecall { uses, .. } => *uses == RegSet::ALL,
                Terminator::Call { callee, .. } | Terminator::TailCall { callee, .. } => {
                    leaves[callee.0 as usize]
                }
                other => is_dispatch(other) && exposed_leaves,
            });
            if now && !leaves[index] {
                leaves[index] = true;
                exposed_leaves |= function.is_exposed;
                has_changed = true;
            }
        }
    }
    leaves
}
