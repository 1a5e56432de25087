//! Memory-resident registers: those that a function leaves in the state, where its callers put them and its
//! callees look for them.
//!
//! Elsewhere than in the state, a register costs moves at calls and returns, and what is alive at a call
//! anyway waits in memory. In the state it costs a load or store in each block that mentions it, and nothing
//! at calls and where paths meet.

use antares_ir::{self as ir, Block, Cfg, LoopNest, Module, Terminator};
use antares_program::{Reg, RegSet};

use crate::emit::{
    Emitter,
    giants::OPTIMIZED_BLOCKS_MAX,
    signature::{Convention, arguments},
};

/// A loop counts for so many times what is around it, as a power of two,
const LOOP_WEIGHT_BITS: u32 = 2;

/// and so many loops around each other do.
const LOOPS_MAX: u32 = 4;

/// A move at a call or return weighs as much as so many loads or stores in blocks: with fewer registers
/// outside of the state, those that are there move less between blocks.
const MOVE_WEIGHT: u64 = 3;

/// Those of `function`. Arguments stay in host registers. So does what some function is linked through: who
/// returns where it was called from passes back no link, so callers count on theirs, in the state too,
/// whatever its callees did with that register.
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

/// What a register costs in the state, and elsewhere.
#[derive(Clone, Copy, Default)]
struct Costs {
    mentions: u64,
    moves: u64,
}

/// How often each block may run, roughly.
fn weights(function: &ir::Function) -> Vec<u64> {
    if function.blocks.len() > OPTIMIZED_BLOCKS_MAX {
        return vec![1; function.blocks.len()];
    }
    let depths = LoopNest::of(&Cfg::of(&function.blocks)).depths().into_iter();
    depths.map(|depth| 1 << (LOOP_WEIGHT_BITS * depth.min(LOOPS_MAX))).collect()
}

/// Registers that go to the state and that come from there at the end of `block`, if their place is
/// elsewhere.
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
