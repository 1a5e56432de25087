//! Memory-resident registers: those that a function leaves in the state, through which callers and callees
//! exchange them.
//!
//! Outside the state, a register costs moves at calls and returns, and across calls it waits in memory
//! anyway. In the state, it costs a load or store in each block that mentions it, but nothing at calls and
//! control-flow joins.

use antares_ir::{self as ir, Block, Cfg, LoopNest, Module, Terminator};
use antares_program::{Reg, RegSet};

use crate::emit::{
    Emitter,
    giants::OPTIMIZED_BLOCKS_MAX,
    signature::{Convention, arguments},
};

/// log2 of a loop's weight relative to the code around it.
const LOOP_WEIGHT_BITS: u32 = 2;

/// Maximum loop depth that adds weight.
const LOOPS_MAX: u32 = 4;

/// Weight of a move at a call or return, relative to a load or store in a block. With fewer registers outside
/// the state, the remaining ones move less between blocks.
const MOVE_WEIGHT: u64 = 3;

/// The memory-resident registers of `function`. Arguments stay in host registers, and so do all link
/// registers. A function that returns to its caller does not return its link. So callers rely on their own,
/// also in the state, whatever the callees did with that register.
pub(crate) fn memory_resident(emitter: &Emitter, function: &ir::Function) -> RegSet {
    let Emitter { ir: module, convention, links, .. } = *emitter;
    if convention == Convention::All {
        return RegSet::EMPTY;
    }
    let mut costs = [Costs::default(); 32];
    let entered = function.params.iter();
    entered.for_each(|register| costs[register.index()].moves += 1);
    for (block, weight) in function.blocks.iter().zip(weights(function)) {
        for register in block.mentions() {
            costs[register.index()].mentions += weight;
        }
        for moved in moves(module, function, block) {
            moved.iter().for_each(|register| costs[register.index()].moves += weight);
        }
    }
    let is_resident = |register: &Reg| {
        let Costs { mentions, moves } = costs[register.index()];
        mentions < moves * MOVE_WEIGHT
    };
    let candidates = RegSet::ALL.minus(arguments(function, convention).or(links));
    candidates.iter().filter(is_resident).fold(RegSet::EMPTY, RegSet::with)
}

/// The costs of a register in the state (mentions) and outside (moves).
#[derive(Clone, Copy, Default)]
struct Costs {
    mentions: u64,
    moves: u64,
}

/// Estimated executions of each block.
fn weights(function: &ir::Function) -> Vec<u64> {
    if function.blocks.len() > OPTIMIZED_BLOCKS_MAX {
        return vec![1; function.blocks.len()];
    }
    let depths = LoopNest::of(&Cfg::of(&function.blocks)).depths().into_iter();
    depths.map(|depth| 1 << (LOOP_WEIGHT_BITS * depth.min(LOOPS_MAX))).collect()
}

/// Registers that move to the state, and from it, at the end of `block`, if they live outside.
fn moves(module: &Module, function: &ir::Function, block: &Block) -> [RegSet; 2] {
    match &block.terminator {
        Terminator::Call { callee, .. } => {
            let callee = &module.functions[callee.0 as usize];
            [callee.params, callee.results]
        }
        Terminator::TailCall { callee, .. } => [module.functions[callee.0 as usize].params, RegSet::EMPTY],
        Terminator::CallIndirect { live, .. } => {
            let reloads = module.indirect_changes.and(*live);
            [module.indirect_params.or(reloads), reloads]
        }
        Terminator::Ecall { uses, .. } => [*uses, RegSet::EMPTY],
        Terminator::Return { .. } => [function.results, RegSet::EMPTY],
        _ => [RegSet::EMPTY; 2],
    }
}
