//! The solver of dataflow problems: computes facts at each block that hold over all paths to it, or from it.
//!
//! The solver terminates. The fact at a block only changes to the result of [`Problem::meet`], so it descends
//! a chain of the problem's lattice. Either all chains are short (sets of registers: 31 steps), or `meet`
//! must widen. It receives the number of changes at the block and in total, and above some number returns a
//! fact that cannot change again. Each change enqueues the following blocks once, so the steps are at most
//! the edges times the longest chain.

use std::collections::{BTreeSet, VecDeque};

use crate::Cfg;

/// The direction in which facts flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From a block to its successors: facts hold at the starts of blocks.
    Forward,
    /// From a block to its predecessors: facts hold at the ends of blocks.
    Backward,
}

/// The work so far, for problems that must widen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// How often the fact at the block has changed.
    pub visits: u32,
    /// How often facts have changed at any block.
    pub steps: usize,
}

/// A monotone dataflow problem.
pub trait Problem {
    /// A fact of the lattice.
    type Fact: Clone + PartialEq;

    /// The fact on the other side of `block` if `fact` holds on this one.
    fn transfer(&self, block: usize, fact: &Self::Fact) -> Self::Fact;

    /// The fact at `block` if `known` or `other` may hold.
    fn meet(&self, block: usize, effort: Effort, known: &Self::Fact, other: &Self::Fact) -> Self::Fact;
}

/// Solves `problem` from the initial facts `known`: the entry's fact, or the solution of an easier problem.
/// The result is none for a block without an initial fact that no path reaches.
pub fn solve<P: Problem>(
    cfg: &Cfg,
    direction: Direction,
    problem: &P,
    mut known: Vec<Option<P::Fact>>,
) -> Vec<Option<P::Fact>> {
    let order = order(cfg, direction);
    let mut place = vec![0; cfg.blocks()];
    order.iter().enumerate().for_each(|(at, block)| place[*block] = at);
    let mut visits = vec![0_u32; cfg.blocks()];
    let mut steps = 0;
    let is_known = known.iter().enumerate().filter(|(_, fact)| fact.is_some());
    let mut open: BTreeSet<usize> = is_known.map(|(block, _)| place[block]).collect();
    while let Some(at) = open.pop_first() {
        let block = order[at];
        let Some(fact) = &known[block] else { continue };
        let across = problem.transfer(block, fact);
        let following = match direction {
            Direction::Forward => cfg.successors(block),
            Direction::Backward => cfg.predecessors(block),
        };
        for &next in following {
            let met = match &known[next] {
                None => across.clone(),
                Some(old) => problem.meet(next, Effort { visits: visits[next], steps }, old, &across),
            };
            if known[next].as_ref() != Some(&met) {
                known[next] = Some(met);
                visits[next] += 1;
                steps += 1;
                open.insert(place[next]);
            }
        }
    }
    known
}

/// All blocks, each after most of the blocks from which facts flow to it.
fn order(cfg: &Cfg, direction: Direction) -> Vec<usize> {
    let mut order = cfg.reverse_postorder().to_vec();
    let mut is_reached = vec![false; cfg.blocks()];
    order.iter().for_each(|block| is_reached[*block] = true);
    order.extend((0..cfg.blocks()).filter(|block| !is_reached[*block]));
    if direction == Direction::Backward {
        order.reverse();
    }
    order
}

/// The queue of functions in an analysis of the whole module, without duplicates.
#[derive(Debug)]
pub struct Worklist {
    order: VecDeque<usize>,
    is_waiting: Vec<bool>,
}

impl Worklist {
    /// Creates a queue of `order`, a permutation of the numbers below its length.
    #[must_use]
    pub fn of(order: impl Iterator<Item = usize>) -> Self {
        let order: VecDeque<usize> = order.collect();
        Self { is_waiting: vec![true; order.len()], order }
    }

    /// Removes the first function.
    pub fn pop(&mut self) -> Option<usize> {
        let index = self.order.pop_front()?;
        self.is_waiting[index] = false;
        Some(index)
    }

    /// Appends the functions that are not in the queue.
    pub fn add(&mut self, indices: &[usize]) {
        for &index in indices {
            if !std::mem::replace(&mut self.is_waiting[index], true) {
                self.order.push_back(index);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The longest path from the entry in edges. In a loop it is unbounded, so it widens to 100.
    struct Longest;

    impl Problem for Longest {
        type Fact = u32;

        fn transfer(&self, _block: usize, fact: &u32) -> u32 {
            (fact + 1).min(100)
        }

        fn meet(&self, _block: usize, effort: Effort, known: &u32, other: &u32) -> u32 {
            match known.max(other) {
                more if more > known && effort.visits > 8 => 100,
                more => *more,
            }
        }
    }

    #[test]
    fn what_grows_in_a_loop_is_widened() {
        let cfg = Cfg::new(vec![vec![1], vec![2, 3], vec![1], vec![], vec![3]]);
        let known = vec![Some(0), None, None, None, None];
        let facts = solve(&cfg, Direction::Forward, &Longest, known);
        assert_eq!(facts, [Some(0), Some(100), Some(100), Some(100), None]);
    }

    #[test]
    fn facts_go_back_too() {
        let cfg = Cfg::new(vec![vec![1, 2], vec![3], vec![3], vec![]]);
        let known = vec![None, None, None, Some(0)];
        let facts = solve(&cfg, Direction::Backward, &Longest, known);
        assert_eq!(facts, [Some(2), Some(1), Some(1), Some(0)]);
    }
}
