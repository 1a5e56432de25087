//! Functions so big that LLVM's passes would take too long: they have a part for themselves, which none of them sees.

use antares_lift::ir::{Function, Module};

/// A function with more blocks than this is not optimized.
pub(crate) const OPTIMIZED_BLOCKS_MAX: usize = 4000;

/// A function with more operations than this is not optimized.
const OPTIMIZED_OPERATIONS_MAX: usize = 100_000;

/// LLVM's time grows faster than a function: giants are not optimized.
pub(crate) fn is_giant(function: &Function) -> bool {
    let operations: usize = function.blocks.iter().map(|block| block.ops.len()).sum();
    function.blocks.len() > OPTIMIZED_BLOCKS_MAX || operations > OPTIMIZED_OPERATIONS_MAX
}

/// Whether a module has any.
pub(crate) fn has_giants(module: &Module) -> bool {
    module.functions.iter().any(is_giant)
}
