//! Limits of LLVM's time: giant functions, which LLVM does not optimize and which get a part of their own,
//! and crowds of tiny ones.

use antares_ir::{Function, Module};

use crate::{CodegenError, Result, emit::inlining::loops};

/// Maximum blocks of an optimized function.
pub const OPTIMIZED_BLOCKS_MAX: usize = 4000;

const OPTIMIZED_OPERATIONS_MAX: usize = 100_000;

const OPTIMIZED_LOOPS_MAX: usize = 512;

/// Maximum targets of a block in an optimized function: LLVM requests the probability of each and scans all
/// of them for it.
const OPTIMIZED_TARGETS_MAX: usize = 512;

/// Maximum operations of all giants together: LLVM takes up to 1.2 KB of memory for one, and the baseline's
/// code is no slower.
const GIANT_OPERATIONS_MAX: usize = 700_000;

/// Whether a function is too large to optimize: LLVM's time grows faster than the size.
pub(crate) fn is_giant(function: &Function) -> bool {
    function.blocks.len() > OPTIMIZED_BLOCKS_MAX
        || function.operations() > OPTIMIZED_OPERATIONS_MAX
        || function.blocks.iter().any(|block| block.terminator.successors().count() > OPTIMIZED_TARGETS_MAX)
        || function.blocks.len() > OPTIMIZED_LOOPS_MAX && loops(function) > OPTIMIZED_LOOPS_MAX
}

/// Refuses modules that would take too much memory.
pub(crate) fn check(module: &Module) -> Result {
    let giants = module.functions.iter().filter(|function| is_giant(function));
    match giants.map(Function::operations).sum() {
        0..=GIANT_OPERATIONS_MAX => Ok(()),
        operations => Err(CodegenError::Giants { operations, operations_max: GIANT_OPERATIONS_MAX }),
    }
}

pub(crate) fn has_giants(module: &Module) -> bool {
    module.functions.iter().any(is_giant)
}

/// Crowds: minimum number of functions, and maximum mean of their operations. Hand-written programs have a
/// mean of at least 47.
const CROWDS: [(usize, usize); 2] = [(256, 24), (1024, 32)];

/// Whether the module is a crowd of tiny functions, in which none is optimized. LLVM runs all passes for each
/// function. That takes a millisecond, or three for functions that call by address or pass on all registers.
pub(crate) fn is_crowd(module: &Module) -> bool {
    let count = module.functions.len();
    let operations: usize = module.functions.iter().map(Function::operations).sum();
    CROWDS.iter().any(|(least, mean)| count >= *least && operations <= count * mean)
}
