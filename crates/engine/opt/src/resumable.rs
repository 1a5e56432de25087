//! Finds the functions that the host may enter in the middle of a run, or that another library may call.
//! These are callees in functions where native code may bail out with all registers; in open modules, also
//! all functions found by address.

use antares_ir::{Module, Terminator, reached};
use antares_program::{Reg, RegSet};

/// Marks the functions that the host may enter after a script continued without native code. They are called
/// by functions in which that may happen, or can be found by address.
///
/// Code can compute the address of any function with a host entry, so all of these count as exposed.
/// Functions that return through another register than `ra` have no entry.
pub(crate) fn mark(module: &mut Module) {
    let mut has_changed = true;
    while has_changed {
        let leaves = may_bail_out(module);
        // Other libraries call exposed functions, and want all registers that they change.
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

/// By function: whether native code may bail out in it or its callees with all registers.
fn may_bail_out(module: &Module) -> Vec<bool> {
    // Propagates backwards over calls. The last node stands for all functions found by address.
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
