//! What goes where it is called, and what stays although it has one caller.

use antares_ir::{Block, Cfg, Function, LoopNest, Module, Terminator};

/// A function of one block with so many operations goes where it is called.
const INLINED_OPERATIONS_MAX: usize = 48;

/// So does one of several blocks with so many operations that calls nobody,
const INLINED_LEAF_OPERATIONS_MAX: usize = 150;

/// if the program has no more operations than so many more by it.
const INLINED_COPIES_OPERATIONS_MAX: usize = 800;

/// A function put together from others that have one caller each is copied with all that is in it. When the
/// operations copied so far are so many times its own,
const COPIED_TIMES_MAX: usize = 6;

/// and at least so many, it stays where it is.
const COPIED_OPERATIONS_MIN: usize = 5_000;

/// In a program of so many functions it stays sooner.
const MANY_FUNCTIONS: usize = 4096;
const COPIED_OPERATIONS_OF_MANY_MIN: usize = 300;

/// What has loops goes nowhere where there would be more of them then: LLVM's time grows as their square.
/// Those of programs that somebody wrote have up to about 100 in one function then, both versions counted.
const LOOPS_TOGETHER_MAX: usize = 160;

/// The number of calls of each function by its name.
pub(crate) fn calls(ir: &Module) -> Vec<usize> {
    let mut calls = vec![0; ir.functions.len()];
    for callee in ir.functions.iter().flat_map(Function::callees) {
        calls[callee] += 1;
    }
    calls
}

/// A function that does little and returns costs less where it is called, `calls` times, than the call.
pub(crate) fn is_inlined(function: &Function, calls: usize) -> bool {
    let operations = function.operations();
    let stays = |block: &Block| {
        matches!(
            block.terminator,
            Terminator::Jump(_) | Terminator::Branch { .. } | Terminator::Return { .. }
        )
    };
    let more = operations * calls.saturating_sub(1);
    match function.blocks.as_slice() {
        [block] => {
            matches!(block.terminator, Terminator::Return { .. }) && operations <= INLINED_OPERATIONS_MAX
        }
        blocks => {
            operations <= INLINED_LEAF_OPERATIONS_MAX
                && more <= INLINED_COPIES_OPERATIONS_MAX
                && function.frame_low.is_none()
                && blocks.iter().all(stays)
        }
    }
}

/// What a function has become when it is decided whether it goes where it is called.
#[derive(Clone, Copy, Default)]
struct Size {
    /// Its own operations and those of what went into it.
    operations: usize,
    /// Operations that were copied on the way, each as often as it was.
    copied: usize,
    /// Its own loops and those of what went into it.
    loops: usize,
}

/// The loops of a function.
pub(crate) fn loops(function: &Function) -> usize {
    LoopNest::of(&Cfg::of(&function.blocks)).headers().count()
}

/// Functions with one caller that do not go there: LLVM inlines from the innermost callee on, so a chain of
/// `n` of them is copied `n * n / 2` times; and a caller takes in so many loops.
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
    // What is called once and not yet part of its caller, for each function.
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
    // A cycle of functions that call each other is never ready: nothing of it is inlined.
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
