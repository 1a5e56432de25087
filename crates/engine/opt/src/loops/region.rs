//! The blocks of a loop and of its bounded body.

use std::collections::HashMap;

use antares_ir::{Block, Cfg, Charge, DominatorTree, Function, LoopNest, Module, Terminator};
use antares_program::{BlockId, FunctionId, GuestAddr, Reg};

/// Maximum blocks of a versioned loop.
const BLOCKS_MAX: usize = 24;

/// Maximum operations of a function that a bounded body inlines; [`LEAF_BLOCKS_MAX`] limits its blocks.
const LEAF_OPS_MAX: usize = 48;

/// Maximum operations of a versioned loop: in larger ones the savings are insignificant.
const OPS_MAX: usize = 256;
const LEAF_BLOCKS_MAX: usize = 4;

/// The blocks of the loop of `header` in the order of an iteration. None if it contains a loop, or has
/// another entry or too many blocks.
pub(super) fn body(nest: &LoopNest, dominators: &DominatorTree, header: usize) -> Option<Vec<usize>> {
    if !nest.latches(header).iter().all(|latch| dominators.dominates(header, *latch)) {
        return None;
    }
    let mut inside = vec![header];
    let mut next = nest.latches(header).to_vec();
    while let Some(block) = next.pop() {
        if inside.contains(&block) {
            continue;
        }
        let before = nest.cfg().predecessors(block);
        if inside.len() == BLOCKS_MAX || before.len() > BLOCKS_MAX {
            return None;
        }
        inside.push(block);
        next.extend(before);
    }
    order(nest.cfg(), header, &inside)
}

/// `inside` in topological order without back edges to the header; none if an inner loop remains.
fn order(cfg: &Cfg, header: usize, inside: &[usize]) -> Option<Vec<usize>> {
    let mut waits: HashMap<usize, usize> = HashMap::new();
    let edges = |block: usize| {
        let next = cfg.successors(block).iter().copied();
        next.filter(|next| *next != header && inside.contains(next))
    };
    for &block in inside {
        for next in edges(block) {
            *waits.entry(next).or_default() += 1;
        }
    }
    let mut order = vec![header];
    let mut index = 0;
    while let Some(&block) = order.get(index) {
        index += 1;
        for next in edges(block) {
            if let Some(count) = waits.get_mut(&next) {
                *count -= 1;
                if *count == 0 {
                    order.push(next);
                }
            }
        }
    }
    (order.len() == inside.len()).then_some(order)
}

/// Functions that a bounded body may inline: small, without loops, calls and a stack frame, and returning to
/// their caller.
pub(super) fn leaf_functions(module: &Module) -> HashMap<FunctionId, Vec<Block>> {
    let is_leaf = |function: &&Function| {
        let is_small = function.operations() <= LEAF_OPS_MAX && function.blocks.len() <= LEAF_BLOCKS_MAX;
        is_small
            && function.link == Reg::RA
            && function.frame_low.is_none()
            && function.blocks.iter().all(is_plain)
            && function.blocks.iter().enumerate().all(goes_down)
    };
    let leaf_functions = module.functions.iter().filter(is_leaf);
    leaf_functions.map(|function| (function.id, function.blocks.clone())).collect()
}

/// Whether the block of a function contains only arithmetic and memory accesses, and does not change the
/// stack pointer and the return address.
fn is_plain(block: &Block) -> bool {
    let ends_well = match &block.terminator {
        Terminator::Jump(_) | Terminator::Branch { .. } => true,
        Terminator::Return { link: None, locals } => locals.is_empty(),
        _ => false,
    };
    ends_well && block.writes.iter().all(|(register, _)| ![Reg::RA, Reg::SP].contains(register))
}

/// Whether all successors are later blocks, so that blocks are in the order of an iteration.
fn goes_down((index, block): (usize, &Block)) -> bool {
    block.terminator.successors().all(|target| target.0 as usize > index)
}

/// A bounded body before the removal of its checks: blocks in the order of an iteration, with their numbers
/// in the function.
pub(super) struct Nodes {
    /// The number of the header.
    pub(super) first: BlockId,
    pub(super) blocks: Vec<Block>,
    /// Exit blocks that make the deferred charges of inlined calls.
    pub(super) ends: Vec<Block>,
}

impl Nodes {
    /// The bounded body of `body`, with calls inlined. None if a block ends in anything but a jump, a branch
    /// or a call of one of `leaf_functions`.
    pub(super) fn new(
        function: &Function,
        body: &[usize],
        leaf_functions: &HashMap<FunctionId, Vec<Block>>,
    ) -> Option<Self> {
        // The number before the first one is for the header with its checks.
        let first = BlockId::at(function.blocks.len() + 1).0;
        let call = call(function, body)?;
        let leaf = match call {
            Some((callee, _)) => leaf_functions.get(&callee)?.as_slice(),
            None => &[],
        };
        let mut numbers = HashMap::new();
        let mut number = first;
        for &index in body {
            numbers.insert(BlockId::at(index), BlockId(number));
            let is_call = matches!(function.blocks[index].terminator, Terminator::Call { .. });
            number += 1 + if is_call { BlockId::at(leaf.len()).0 } else { 0 };
        }
        let mut nodes = Self { first: BlockId(first), blocks: Vec::new(), ends: Vec::new() };
        for &index in body {
            nodes.copy(&function.blocks[index], leaf, |id| numbers.get(&id).copied().unwrap_or(id));
        }
        let ops: usize = nodes.blocks.iter().map(|block| block.ops.len()).sum();
        if ops > OPS_MAX || nodes.blocks.len() > BLOCKS_MAX {
            return None;
        }
        if let Some((callee, call)) = call {
            nodes.end_with(callee, call);
        }
        Some(nodes)
    }

    /// The number of the next block.
    fn next(&self) -> u32 {
        BlockId::at(self.first.0 as usize + self.blocks.len()).0
    }

    /// Adds a block of the loop, and if it ends in a call, the blocks of `leaf`.
    fn copy(&mut self, block: &Block, leaf: &[Block], renumbered: impl Fn(BlockId) -> BlockId) {
        let mut block = Block { is_bounded: true, ..block.clone() };
        let Terminator::Call { to, .. } = block.terminator else {
            block.terminator = block.terminator.map_targets(renumbered);
            self.blocks.push(block);
            return;
        };
        let inner = self.next() + 1;
        block.terminator = Terminator::Jump(BlockId(inner));
        self.blocks.push(block);
        for block in leaf {
            let terminator = match &block.terminator {
                Terminator::Return { .. } => Terminator::Jump(renumbered(to)),
                other => other.map_targets(|id| BlockId(inner + id.0)),
            };
            let copy = Block { charge: Charge::Deferred, is_bounded: true, terminator, ..block.clone() };
            self.blocks.push(copy);
        }
    }

    /// Redirects all exits through blocks that make the deferred charges, so that profiles attribute them
    /// correctly.
    fn end_with(&mut self, callee: FunctionId, call: GuestAddr) {
        let (first, next, pc) = (self.first, self.next(), self.blocks[0].pc);
        for block in &mut self.blocks {
            for target in block.terminator.clone().successors() {
                if (first.0..next).contains(&target.0) {
                    continue;
                }
                let leads_there = |end: &Block| end.terminator == Terminator::Jump(target);
                let index = self.ends.iter().position(leads_there).unwrap_or_else(|| {
                    let end = Block::between(pc, Vec::new(), Terminator::Jump(target));
                    let charge = Charge::OfDeferred { callee, call };
                    self.ends.push(Block { charge, is_metered: true, ..end });
                    self.ends.len() - 1
                });
                let end = BlockId::at(next as usize + index);
                block.terminator = block.terminator.map_targets(|id| if id == target { end } else { id });
            }
        }
    }
}

/// The callee and the address of the call in the blocks `body`, if any. None if they call several functions or
/// do anything but jump, branch and call.
fn call(function: &Function, body: &[usize]) -> Option<Option<(FunctionId, GuestAddr)>> {
    let mut call: Option<(FunctionId, GuestAddr)> = None;
    for block in body.iter().map(|index| &function.blocks[*index]) {
        match block.terminator {
            Terminator::Jump(_) | Terminator::Branch { .. } => {}
            Terminator::Call { callee, .. } if call.is_none_or(|(known, _)| known == callee) => {
                call = Some((callee, function.caller(block)));
            }
            _ => return None,
        }
    }
    Some(call)
}
