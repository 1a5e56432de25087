//! Reduces the number of blocks that charge cycles: charges that all paths through some blocks share are made
//! once.
//!
//! A block may charge what each of its successors would charge at least, or leave its own charge to all of
//! them. So the charged cycles may differ slightly from the used ones at any block. This is not observable,
//! since charges are balanced before every call, syscall and return. No charge is negative.

use antares_ir::{Block, Cfg, Charge, Function, Module, Terminator, frequencies};

use crate::Target;

/// Maximum rounds over all junctions.
const ROUNDS: usize = 4;

/// Maximum cycles that a block charges for others.
const CYCLES_MAX: u64 = 1 << 12;

/// Blocks that share successors, and all these successors. What one side charges more, the other side charges
/// less.
#[derive(Debug, Default)]
struct Junction {
    before: Vec<usize>,
    behind: Vec<usize>,
}

/// Moves charges in all functions with at most `blocks_max` blocks.
pub(crate) fn place(module: &mut Module, target: Target) {
    let functions = module.functions.iter_mut();
    functions.filter(|function| function.blocks.len() <= target.blocks_max).for_each(move_in);
}

fn move_in(function: &mut Function) {
    let cfg = Cfg::of(&function.blocks);
    let weights = weights(function, &cfg);
    let mut charges: Vec<u64> = function.blocks.iter().map(|block| block.cycles).collect();
    let junctions = junctions(function, &cfg);
    for _ in 0..ROUNDS {
        let moved = junctions.iter().filter(|place| shift(place, &weights, &mut charges)).count();
        if moved == 0 {
            break;
        }
    }
    for (block, charged) in function.blocks.iter_mut().zip(charges) {
        if charged != block.cycles {
            block.charge = Charge::Moved(charged);
        }
    }
}

/// Whether control observably stays in the function after a block.
fn is_free(block: &Block) -> bool {
    matches!(block.terminator, Terminator::Jump(_) | Terminator::Branch { .. })
}

/// The junctions where charges may move.
fn junctions(function: &Function, cfg: &Cfg) -> Vec<Junction> {
    let mut is_taken = vec![false; cfg.blocks()];
    let mut junctions = Vec::new();
    for start in 0..cfg.blocks() {
        if is_taken[start] || cfg.successors(start).is_empty() {
            continue;
        }
        let mut place = Junction { before: vec![start], behind: Vec::new() };
        is_taken[start] = true;
        let mut next = 0;
        while let Some(&before) = place.before.get(next) {
            next += 1;
            for &behind in cfg.successors(before) {
                if place.behind.contains(&behind) {
                    continue;
                }
                place.behind.push(behind);
                for &other in cfg.predecessors(behind) {
                    if !std::mem::replace(&mut is_taken[other], true) {
                        place.before.push(other);
                    }
                }
            }
        }
        // Function calls also enter the first block.
        let is_own = |block: &usize| function.blocks[*block].charge == Charge::Entered;
        let is_movable = place.before.iter().all(|block| is_free(&function.blocks[*block]))
            && !place.behind.contains(&0)
            && place.before.iter().chain(&place.behind).all(is_own);
        if is_movable {
            junctions.push(place);
        }
    }
    junctions
}

/// Moves a charge at one junction if that pays off. Returns whether it did.
fn shift(place: &Junction, weights: &[u64], charges: &mut [u64]) -> bool {
    let least = |blocks: &[usize]| blocks.iter().map(|block| charges[*block]).min().unwrap_or(0);
    let zeroed = |blocks: &[usize], by: u64| -> u64 {
        blocks.iter().filter(|block| charges[**block] == by).map(|block| weights[*block]).sum()
    };
    let gain = |from: &[usize], to: &[usize]| {
        let by = least(from);
        let is_small = to.iter().all(|block| charges[*block] + by <= CYCLES_MAX);
        // Targets without a charge would get one. A block on both sides is unchanged.
        (by > 0 && is_small).then(|| zeroed(from, by).saturating_sub(zeroed(to, 0)))
    };
    let up = gain(&place.behind, &place.before).unwrap_or(0);
    let down = gain(&place.before, &place.behind).unwrap_or(0);
    if up.max(down) == 0 {
        return false;
    }
    let (from, to) = if up > down { (&place.behind, &place.before) } else { (&place.before, &place.behind) };
    let by = least(from);
    from.iter().for_each(|block| charges[*block] -= by);
    to.iter().for_each(|block| charges[*block] += by);
    true
}

/// Estimated executions of each block; 0 where a charge is free, because the limit is polled with it.
fn weights(function: &Function, cfg: &Cfg) -> Vec<u64> {
    let mut weights = frequencies(cfg);
    for (weight, block) in weights.iter_mut().zip(&function.blocks) {
        *weight = if block.is_metered { 0 } else { (*weight).max(1) };
    }
    weights
}

#[cfg(test)]
mod tests {
    use antares_program::{BlockId, FunctionId, GuestAddr, Reg, RegSet};

    use super::*;
    use antares_ir::{SpAfter, Value};
    use antares_proof::unbalanced;

    const RETURN: Terminator = Terminator::Return { link: None, locals: Vec::new() };

    fn jump(to: u32) -> Terminator {
        Terminator::Jump(BlockId(to))
    }

    fn branch(taken: u32, otherwise: u32) -> Terminator {
        Terminator::Branch { condition: Value(0), taken: BlockId(taken), otherwise: BlockId(otherwise) }
    }

    /// The charges of the blocks after the move, which must be balanced.
    #[track_caller]
    fn moved(blocks: &[(u64, Terminator)]) -> Vec<u64> {
        let block = |(cycles, terminator): &(u64, Terminator)| Block {
            cycles: *cycles,
            ..Block::between(GuestAddr(0), Vec::new(), terminator.clone())
        };
        let mut function = Function {
            id: FunctionId(0),
            entry: GuestAddr(0),
            link: Reg::RA,
            is_exposed: false,
            is_resumable: false,
            params: RegSet::EMPTY,
            results: RegSet::EMPTY,
            frame_low: None,
            sp_after: SpAfter::Same,
            returns: antares_ir::Returns::Once,
            blocks: blocks.iter().map(block).collect(),
            loops: Vec::new(),
        };
        move_in(&mut function);
        assert_eq!(unbalanced(&function), None);
        let charged = function.blocks.iter().filter_map(Block::charged).collect();
        for index in 0..blocks.len() {
            let mut broken = function.clone();
            broken.blocks[index].charge = Charge::Moved(function.blocks[index].charged().unwrap_or(0) + 1);
            assert!(unbalanced(&broken).is_some(), "block {index}");
        }
        charged
    }

    #[test]
    fn one_block_on_each_path_charges() {
        let blocks = [(10, branch(1, 2)), (3, jump(3)), (5, jump(3)), (100, RETURN)];
        assert_eq!(moved(&blocks), [0, 113, 115, 0]);
    }

    #[test]
    fn blocks_in_line_charge_once() {
        let charged = moved(&[(1, jump(1)), (2, jump(2)), (3, RETURN)]);
        let charging = charged.iter().filter(|cycles| **cycles > 0).count();
        assert_eq!((charged.iter().sum::<u64>(), charging), (6, 1));
    }

    #[test]
    fn an_iteration_costs_what_it_costs() {
        // A header with two paths through the body and one exit.
        let charged = moved(&[
            (7, jump(1)),
            (4, branch(2, 5)),
            (1, branch(3, 4)),
            (9, jump(1)),
            (2, jump(1)),
            (1, RETURN),
        ]);
        assert_eq!(charged[1] + charged[2] + charged[3], 14);
        assert_eq!(charged[1] + charged[2] + charged[4], 7);
        assert_eq!(charged[2], 0);
    }

    #[test]
    fn calls_and_the_entry_are_exact() {
        let call = Terminator::Call { callee: FunctionId(0), to: BlockId(1) };
        assert_eq!(moved(&[(5, call), (6, jump(2)), (7, RETURN)])[0], 5);
        // A loop to the entry.
        assert_eq!(moved(&[(5, branch(0, 1)), (6, RETURN)]), [5, 6]);
    }
}
