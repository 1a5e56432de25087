//! Which functions the host may enter in the middle of a run, or another library may call: those that are
//! called where native code may be left with all registers, and in open modules all that are found by their
//! address.

use antares_ir::{Module, Terminator, reached};
use antares_program::{Reg, RegSet};

/// Marks the functions that the host may enter after a script went on without native code: those that are
/// called by functions in which that may happen, and all that can be found by their address.
///
/// What has an entry for the host can be found by its address too, by whatever computes it: so all of these
/// count as exposed. What returns through another register than `ra` has none.
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
            for callee in function.callees() {
                is_resumable[callee] |= module.functions[callee].link == Reg::RA;
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
    // Back over calls. The last node stands for whatever is found by its address.
    let found = module.functions.len();
    let mut callers = module.callers();
    callers.push(Vec::new());
    let mut leavers = if module.is_open { vec![found] } else { Vec::new() };
    for (index, function) in module.functions.iter().enumerate() {
        if function.is_exposed {
            callers[index].push(found);
        }
        for block in &function.blocks {
            match &block.terminator {
                Terminator::Ecall { uses, .. } if *uses == RegSet::ALL => leavers.push(index),
                other if other.calls_by_address() => callers[found].push(index),
                _ => {}
            }
        }
    }
    reached(&callers, leavers)
}
