//! Counted loops: loops that run a number of times which is known before the first.
//!
//! Such a loop gets two bodies and a guard in the preheader. It bounds the trip count from the registers, and
//! takes the *bounded* body if all of it fits into the cycles left, or nearly, and every access of every
//! iteration lies in memory: there, nothing is checked or polled again. Else the loop runs as it was, with
//! every check and poll; so the choice may be wrong on the safe side only, and nothing leaves native code
//! because of it.
//!
//! A loop may have several blocks and several exits, as long as no loop is in it; functions that it calls
//! become part of the bounded body where they are small and touch no stack. One test that every iteration
//! runs through bounds the trip count; other exits only make it lower.

mod affine;
mod byte_search;
mod guard;
mod region;
mod trip_count;

use std::collections::HashMap;

use antares_ir::{Access, Block, Cfg, DominatorTree, Function, LoopNest, Module, Op, VersionedLoop};
use antares_program::BlockId;

use crate::loops::{
    affine::LoopIteration,
    guard::{GuardBuilder, Spans},
    region::Nodes,
    trip_count::TripCount,
};

/// In a function with more loops none is versioned: what LLVM does about loops takes time as the square of
/// their number, and nobody writes so many.
const LOOPS_MAX: usize = 256;

/// Nor is any in a program with more loops, if it has one for each so many bytes of code: a crowd of small
/// functions with a loop each. In programs that somebody wrote a loop has 300 and more.
const LOOPS_OF_ALL_MAX: usize = 256;
const CODE_BYTES_MIN: u64 = 160;

/// Cycles that a bounded loop may use, and that may be overdrawn when it begins, by loops before it. A script
/// beyond its limit has no other effect, so that the poll after the loop is early enough; a pause waits for
/// two milliseconds at the most.
const OVERDRAFT: i64 = 1 << 22;

/// Versions the counted loops of `module`; with what they call, if `inlines_calls`.
pub(crate) fn version(module: &mut Module, inlines_calls: bool) {
    let (vm_version, writable) = (module.options.vm_version, module.writable);
    let bounds = |access: Access| access.bounds(vm_version, writable);
    if is_crowd(module) {
        return;
    }
    let leaf_functions = if inlines_calls { region::leaf_functions(module) } else { HashMap::new() };
    for function in &mut module.functions {
        let cfg = Cfg::of(&function.blocks);
        let nest = LoopNest::of(&cfg);
        if nest.headers().count() > LOOPS_MAX {
            continue;
        }
        let dominators = DominatorTree::of(&cfg);
        for header in nest.headers() {
            let Some(body) = region::body(&nest, &dominators, header) else { continue };
            if byte_search::shorten(function, &body) {
                continue;
            }
            let Some(nodes) = Nodes::new(function, &body, &leaf_functions) else { continue };
            version_one(function, &body, nodes, bounds);
        }
    }
}

/// Whether loops are so close together that what is gained in each is less than what all of them cost.
fn is_crowd(module: &Module) -> bool {
    let loops = |function: &Function| LoopNest::of(&Cfg::of(&function.blocks)).headers().count();
    let loops: usize = module.functions.iter().map(loops).sum();
    loops > LOOPS_OF_ALL_MAX && loops as u64 * CODE_BYTES_MIN > module.code_end - module.code_start
}

/// Versions the loop of the blocks `body`, its header first, if its trip count is known.
fn version_one(
    function: &mut Function,
    body: &[usize],
    mut nodes: Nodes,
    bounds: impl Fn(Access) -> (u64, u64),
) {
    let mut iteration = LoopIteration::new(&nodes.blocks, nodes.first);
    let Some(count) = TripCount::of(&mut iteration) else { return };
    let mut spans = Spans::default();
    let mut proved = Vec::new();
    for (node, block) in nodes.blocks.iter().enumerate() {
        for (index, op) in block.ops.iter().enumerate() {
            if let Op::Check { access, base, low, high } = *op
                && let Some(recurrence) = iteration.recurrence(node, base)
                && spans.add(access, recurrence, (low, high), bounds(access))
            {
                proved.push((node, index));
            }
        }
    }
    let has_gain = nodes.blocks.len() == 1 || !proved.is_empty();
    if !has_gain {
        return;
    }
    let mut guard = GuardBuilder::default();
    let cycles = nodes.blocks.iter().map(|block| block.cycles).sum::<u64>();
    let fitting = OVERDRAFT.checked_div(cycles.cast_signed()).unwrap_or(i64::MAX) - 1;
    let last_max = spans.last_max().min(fitting);
    let starts_low = spans.show_low(&count.counter);
    let Some(last) = count.last_iteration(&mut guard, last_max, starts_low) else { return };
    guard.require_cycles(OVERDRAFT);
    let spans = spans.require(&mut guard, last);
    for (node, index) in proved {
        let op = &mut nodes.blocks[node].ops[index];
        if let Op::Check { access, base, low, high } = *op {
            *op = Op::Proved { access, base, low, high };
        }
    }
    function.loops.push(VersionedLoop {
        guard: BlockId::at(body[0]),
        header: nodes.first,
        blocks: BlockId::at(nodes.blocks.len()).0,
        exit: BlockId::at(nodes.first.0 as usize + count.node),
        counter: count.counter.linear(),
        step: count.step,
        end: count.end.linear(),
        last,
        spans,
    });
    let plain = BlockId(nodes.first.0 - 1);
    let guard = guard.finish(function.blocks[body[0]].pc, nodes.first, plain);
    insert_guard(function, body, guard);
    function.blocks.append(&mut nodes.blocks);
    function.blocks.append(&mut nodes.ends);
}

/// Puts `guard` before the loop of the blocks `body`, whose header becomes the last block of the function.
fn insert_guard(function: &mut Function, body: &[usize], guard: Block) {
    let (own, plain) = (BlockId::at(body[0]), BlockId::at(function.blocks.len()));
    for &index in body {
        let terminator = &mut function.blocks[index].terminator;
        *terminator = terminator.map_targets(|target| if target == own { plain } else { target });
    }
    let header = std::mem::replace(&mut function.blocks[body[0]], guard);
    function.blocks.push(header);
}
