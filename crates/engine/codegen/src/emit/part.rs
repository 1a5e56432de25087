//! Divides a library into parts for separate compilation.

use antares_ir::Module;

use crate::{Share, emit::giants::is_giant};

/// The part of each function: neighbors together, with about the same number of operations in each. According
/// to `share`, the last part may hold exactly the giants.
pub(crate) fn parts(module: &Module, share: Share) -> Vec<u32> {
    let of = if share.has_giants { share.of - 1 } else { share.of };
    let is_apart: Vec<bool> =
        module.functions.iter().map(|function| share.has_giants && is_giant(function)).collect();
    let size = |index: usize| -> u64 {
        let blocks = module.functions[index].blocks.iter().filter(|_| !is_apart[index]);
        blocks.map(|block| block.ops.len() as u64 + 1).sum()
    };
    let total: u64 = (0..module.functions.len()).map(size).sum();
    let mut before = 0;
    let mut part = |index: usize| {
        if is_apart[index] {
            return of;
        }
        let part = before * u64::from(of) / total.max(1);
        before += size(index);
        u32::try_from(part).expect("a part is one of `of`").min(of - 1)
    };
    (0..module.functions.len()).map(&mut part).collect()
}

/// The functions that other parts than their own call.
pub(crate) fn is_shared(module: &Module, parts: &[u32]) -> Vec<bool> {
    let mut is_shared = vec![false; parts.len()];
    for (index, function) in module.functions.iter().enumerate() {
        for callee in function.callees() {
            is_shared[callee] |= parts[callee] != parts[index];
        }
    }
    is_shared
}
