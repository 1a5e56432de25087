//! Counted loops: loops whose trip count is known before the first iteration.
//!
//! Such a loop gets two bodies and a guard in the preheader. The guard bounds the trip count from the
//! registers. It selects the *bounded* body if the loop fits, or nearly fits, into the cycles left, and every
//! access of every iteration lies in memory. The bounded body checks and polls nothing. Otherwise the loop
//! runs with every check and poll. So a wrong choice is only slow, and the guard never bails out.
//!
//! A loop may have several blocks and several exits, but no inner loop. The bounded body inlines the
//! functions that it calls if they are small and touch no stack. One test that every iteration passes bounds
//! the trip count; other exits only lower it.

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

/// Maximum loops of a function with versioned loops. LLVM's loop passes take time quadratic in the number of
/// loops, and hand-written functions have fewer.
const LOOPS_MAX: usize = 256;

/// Maximum loops of a program with less than [`CODE_BYTES_MIN`] bytes of code per loop, such as many small
/// functions with a loop each. Hand-written programs have at least 300 bytes per loop.
const LOOPS_OF_ALL_MAX: usize = 256;
const CODE_BYTES_MIN: u64 = 160;

/// Cycles that a bounded loop may use, and that earlier loops may have overdrawn at its start. A script
/// beyond its limit has no other effect, so the poll after the loop is early enough. A pause waits for at
/// most two milliseconds.
const OVERDRAFT: i64 = 1 << 22;

/// Versions the counted loops of `module`, and if `inlines_calls`, also those that make calls.
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

/// Whether loops are so dense that versioning costs more than it gains.
fn is_crowd(module: &Module) -> bool {
    let loops = |function: &Function| LoopNest::of(&Cfg::of(&function.blocks)).headers().count();
    let loops: usize = module.functions.iter().map(loops).sum();
    loops > LOOPS_OF_ALL_MAX && loops as u64 * CODE_BYTES_MIN > module.code_end - module.code_start
}

/// Versions the loop of the blocks `body`, header first, if its trip count is known.
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

/// Inserts `guard` before the loop of the blocks `body`. The header becomes the last block of the function.
fn insert_guard(function: &mut Function, body: &[usize], guard: Block) {
    let (own, plain) = (BlockId::at(body[0]), BlockId::at(function.blocks.len()));
    for &index in body {
        let terminator = &mut function.blocks[index].terminator;
        *terminator = terminator.map_targets(|target| if target == own { plain } else { target });
    }
    let header = std::mem::replace(&mut function.blocks[body[0]], guard);
    function.blocks.push(header);
}
