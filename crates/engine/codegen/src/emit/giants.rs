//! What LLVM's passes would take too long for, and does not see: functions that are too big, which have a
//! part for themselves, and crowds of tiny ones.

use antares_ir::{Function, Module};

use crate::{CodegenError, emit::inlining::loops};

/// A function with more blocks than this is not optimized.
pub const OPTIMIZED_BLOCKS_MAX: usize = 4000;

/// A function with more operations than this is not optimized.
const OPTIMIZED_OPERATIONS_MAX: usize = 100_000;

/// A function with more loops is not optimized,
const OPTIMIZED_LOOPS_MAX: usize = 512;

/// nor is one of which a block goes to more others than this: LLVM asks for the probability of each, and
/// looks through all of them for it.
const OPTIMIZED_TARGETS_MAX: usize = 512;

/// Operations of all giants together, at most: LLVM takes up to 1.2 KB of memory for one, and the baseline's
/// code is no slower.
const GIANT_OPERATIONS_MAX: usize = 700_000;

/// LLVM's time grows faster than a function: giants are not optimized.
pub(crate) fn is_giant(function: &Function) -> bool {
    function.blocks.len() > OPTIMIZED_BLOCKS_MAX
        || function.operations() > OPTIMIZED_OPERATIONS_MAX
        || function.blocks.iter().any(|block| block.terminator.successors().count() > OPTIMIZED_TARGETS_MAX)
        || function.blocks.len() > OPTIMIZED_LOOPS_MAX && loops(function) > OPTIMIZED_LOOPS_MAX
}

/// Refuses what would take too much memory.
pub(crate) fn check(module: &Module) -> Result<(), CodegenError> {
    let giants = module.functions.iter().filter(|function| is_giant(function));
    match giants.map(Function::operations).sum() {
        0..=GIANT_OPERATIONS_MAX => Ok(()),
        operations => Err(CodegenError::Giants { operations, operations_max: GIANT_OPERATIONS_MAX }),
    }
}

/// Whether a module has any.
pub(crate) fn has_giants(module: &Module) -> bool {
    module.functions.iter().any(is_giant)
}

/// Crowds: how many functions they have at least, and operations of each on average at most. Those of
/// programs that somebody wrote have 47 or more.
const CROWDS: [(usize, usize); 2] = [(256, 24), (1024, 32)];

/// LLVM starts all its passes for each function, which takes a millisecond, and three where it calls by
/// address or passes on all registers: in a crowd of tiny ones none is optimized.
pub(crate) fn is_crowd(module: &Module) -> bool {
    let count = module.functions.len();
    let operations: usize = module.functions.iter().map(Function::operations).sum();
    CROWDS.iter().any(|(least, mean)| count >= *least && operations <= count * mean)
}
