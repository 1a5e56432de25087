//! Counted loops: loops that run a number of times which is known before the first.
//!
//! Such a loop gets two bodies and a block in front that chooses. It bounds the number of passes from the registers, and
//! takes the *bounded* body if all of it fits into the cycles left, or nearly, and every access of every pass lies in memory: there,
//! nothing is looked at again. Else the loop runs as it was, with every check and the meter; so the choice may be wrong
//! on the safe side only, and nothing leaves native code because of it.
//!
//! A loop may have several blocks and several exits, as long as no loop is in it; functions that it calls become part of the
//! bounded body where they are small and touch no stack. One test that every pass runs through bounds the passes; other
//! exits only make them fewer.

mod affine;
mod count;
mod front;
mod region;
mod search;

use std::collections::HashMap;

use antares_ir::{Access, Block, Cfg, DominatorTree, Function, LoopNest, Module, Op, VersionedLoop};
use antares_program::BlockId;

use crate::loops::{
    affine::Pass,
    count::Count,
    front::{Front, Spans},
    region::Nodes,
};

/// A loop with more operations is not doubled: what is saved would not show.
const OPS_MAX: usize = 256;

/// Cycles that a bounded loop may use, and that may be overdrawn when it begins, by loops before it. A script beyond its limit
/// has no other effect, so that the look after the loop is early enough; a pause waits for two milliseconds at the most.
const OVERDRAFT: i64 = 1 << 22;

/// Versions the counted loops of `module`; with what they call, if `takes_in_calls`.
pub(crate) fn version(module: &mut Module, takes_in_calls: bool) {
    let (vm_version, writable) = (module.options.vm_version, module.writable);
    let bounds = |access: Access| access.bounds(vm_version, writable);
    let leaves = if takes_in_calls { region::leaves(module) } else { HashMap::new() };
    for function in &mut module.functions {
        let cfg = Cfg::of(&function.blocks);
        let (nest, dominators) = (LoopNest::of(&cfg), DominatorTree::of(&cfg));
        for header in nest.headers() {
            let Some(body) = region::body(&nest, &dominators, header) else { continue };
            if search::shorten(function, &body) {
                continue;
            }
            let Some(nodes) = Nodes::new(function, &body, &leaves) else { continue };
            double_one(function, &body, nodes, bounds);
        }
    }
}

/// Doubles the loop of the blocks `body`, its header first, if its passes can be counted.
fn double_one(
    function: &mut Function,
    body: &[usize],
    mut nodes: Nodes,
    bounds: impl Fn(Access) -> (u64, u64),
) {
    let mut pass = Pass::new(&nodes.blocks, nodes.first);
    let Some(count) = Count::of(&mut pass) else { return };
    let mut spans = Spans::default();
    let mut proved = Vec::new();
    for (node, block) in nodes.blocks.iter().enumerate() {
        for (index, op) in block.ops.iter().enumerate() {
            if let Op::Check { access, base, low, high } = *op
                && let Some(reach) = pass.reach(node, base)
                && spans.add(access, reach, (low, high), bounds(access))
            {
                proved.push((node, index));
            }
        }
    }
    let has_gain = nodes.blocks.len() == 1 || !proved.is_empty();
    if !has_gain {
        return;
    }
    let mut front = Front::default();
    let cycles = nodes.blocks.iter().map(|block| block.cycles).sum::<u64>();
    let fitting = OVERDRAFT.checked_div(cycles.cast_signed()).unwrap_or(i64::MAX) - 1;
    let last_max = spans.last_max().min(fitting);
    let starts_low = spans.show_low(&count.counter);
    let Some(last) = count.last_pass(&mut front, last_max, starts_low) else { return };
    front.ask_for_cycles(OVERDRAFT);
    let spans = spans.ask(&mut front, last);
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
    let chooser = front.finish(function.blocks[body[0]].pc, nodes.first, plain);
    put_in_front(function, body, chooser);
    function.blocks.append(&mut nodes.blocks);
    function.blocks.append(&mut nodes.ends);
}

/// Puts `chooser` in front of the loop of the blocks `body`, whose header becomes the last block of the function.
fn put_in_front(function: &mut Function, body: &[usize], chooser: Block) {
    let (own, plain) = (BlockId::at(body[0]), BlockId::at(function.blocks.len()));
    for &index in body {
        let terminator = &mut function.blocks[index].terminator;
        *terminator = terminator.map_targets(|target| if target == own { plain } else { target });
    }
    let header = std::mem::replace(&mut function.blocks[body[0]], chooser);
    function.blocks.push(header);
}
