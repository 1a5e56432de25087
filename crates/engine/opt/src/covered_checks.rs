//! Removes checks of loads that checks of stores cover: addresses of native stores are readable.
//!
//! This does not apply to VM version 0, where a store may touch the last byte of memory but a load may not.

use antares_ir::{Access, Block, Module, Op};

/// Removes, in each block, checks of loads that a check of stores on the same base covers.
pub(crate) fn drop(module: &mut Module) {
    if module.options.vm_version == 0 {
        return;
    }
    let blocks = module.functions.iter_mut().flat_map(|function| &mut function.blocks);
    blocks.for_each(drop_in);
}

fn drop_in(block: &mut Block) {
    let is_covered = |checks: &[Op], op: &Op| {
        let Op::Check { access: Access::Read, base, low, high } = *op else { return false };
        checks.iter().any(|other| match *other {
            Op::Check { access: Access::Write, base: at, low: from, high: to } => {
                at == base && from <= low && high <= to
            }
            _ => false,
        })
    };
    if block.ops.iter().any(|op| is_covered(&block.ops, op)) {
        let checks = block.take_checks();
        let kept: Vec<Op> = checks.iter().copied().filter(|op| !is_covered(&checks, op)).collect();
        block.put_checks(&kept);
    }
}
