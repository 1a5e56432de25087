//! Decides which functions LLVM inlines, and which remain although they have only one caller.

use antares_ir::{Block, Cfg, Function, LoopNest, Module, Terminator};

/// Maximum operations of a one-block function to inline.
const INLINED_OPERATIONS_MAX: usize = 48;

/// Maximum operations of a leaf function of several blocks to inline.
const INLINED_LEAF_OPERATIONS_MAX: usize = 150;

/// Maximum operations that inlining such a leaf function adds to the program.
const INLINED_COPIES_OPERATIONS_MAX: usize = 800;

/// Maximum ratio of copied operations to a function's size. A function composed of single-caller functions is
/// copied with its whole body, repeatedly.
const COPIED_TIMES_MAX: usize = 6;

/// Minimum copied operations for this limit to apply.
const COPIED_OPERATIONS_MIN: usize = 5_000;

/// Number of functions from which a program has a lower minimum.
const MANY_FUNCTIONS: usize = 4096;
const COPIED_OPERATIONS_OF_MANY_MIN: usize = 300;

/// Maximum loops in one function after inlining: LLVM's time grows with their square. Hand-written programs
/// have up to about 100, counting both versions.
const LOOPS_TOGETHER_MAX: usize = 160;

/// By function: the number of its direct calls.
pub(crate) fn calls(ir: &Module) -> Vec<usize> {
    let mut calls = vec![0; ir.functions.len()];
    for callee in ir.functions.iter().flat_map(Function::callees) {
        calls[callee] += 1;
    }
    calls
}

/// Whether inlining a function at all its `calls` costs less than calling it.
pub(crate) fn is_inlined(function: &Function, calls: usize) -> bool {
    let operations = function.operations();
    let returns = |block: &Block| matches!(block.terminator, Terminator::Return { .. });
    let goes_on = |block: &Block| matches!(block.terminator, Terminator::Jump(_) | Terminator::Branch { .. });
    let more = operations * calls.saturating_sub(1);
    match function.blocks.as_slice() {
        [block] => returns(block) && operations <= INLINED_OPERATIONS_MAX,
        blocks => {
            operations <= INLINED_LEAF_OPERATIONS_MAX
                && more <= INLINED_COPIES_OPERATIONS_MAX
                && function.frame_low.is_none()
                && blocks.iter().all(|block| returns(block) || goes_on(block))
        }
    }
}

/// The size of a function when the inlining of it is decided.
#[derive(Clone, Copy, Default)]
struct Size {
    /// Operations of the function and of its inlined callees.
    operations: usize,
    /// Operations copied so far, with repetitions.
    copied: usize,
    /// Loops of the function and of its inlined callees.
    loops: usize,
}

pub(crate) fn loops(function: &Function) -> usize {
    LoopNest::of(&Cfg::of(&function.blocks)).headers().count()
}

/// By function: whether to keep it although it has one caller. LLVM inlines from the innermost callee on, so
/// it copies a chain of `n` functions `n * n / 2` times. The number of loops in a caller is limited too.
pub(crate) fn ends_chain(ir: &Module, calls: &[usize]) -> Vec<bool> {
    let mut sizes: Vec<Size> = ir
        .functions
        .iter()
        .map(|function| Size {
            operations: function.operations() + 2 * function.blocks.len(),
            copied: 0,
            loops: loops(function),
        })
        .collect();
    let mut callers = vec![None; ir.functions.len()];
    // By function: single-call callees that are not yet decided.
    let mut open = vec![0_usize; ir.functions.len()];
    for (index, function) in ir.functions.iter().enumerate() {
        for callee in function.callees().filter(|callee| calls[*callee] == 1 && *callee != index) {
            callers[callee] = Some(index);
            open[index] += 1;
        }
    }
    let mut ends = vec![false; ir.functions.len()];
    let copied_min = if ir.functions.len() < MANY_FUNCTIONS {
        COPIED_OPERATIONS_MIN
    } else {
        COPIED_OPERATIONS_OF_MANY_MIN
    };
    let mut ready: Vec<usize> = (0..open.len()).filter(|index| open[*index] == 0).collect();
    // Functions that call each other in a cycle are never ready, so none of them is inlined.
    while let Some(index) = ready.pop() {
        let Some(caller) = callers[index] else { continue };
        let Size { operations, copied, loops } = sizes[index];
        let has_many_loops = loops > 0 && sizes[caller].loops + loops > LOOPS_TOGETHER_MAX;
        let is_put_together = copied >= copied_min && copied > COPIED_TIMES_MAX * operations;
        ends[index] = has_many_loops || is_put_together;
        if !ends[index] {
            sizes[caller].operations += operations;
            sizes[caller].copied += operations + copied;
            sizes[caller].loops += loops;
        }
        open[caller] -= 1;
        if open[caller] == 0 {
            ready.push(caller);
        }
    }
    ends
}
