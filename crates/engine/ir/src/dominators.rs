//! Dominators: the blocks that every path from the entry to a block passes.

use crate::Cfg;

/// The position of an unreachable block.
const UNREACHED: usize = usize::MAX;

/// The dominator tree of a function, by Cooper, Harvey and Kennedy's "A Simple, Fast Dominance Algorithm".
/// Parents only move up, until all blocks agree with their predecessors.
#[derive(Debug)]
pub struct DominatorTree {
    /// By block: its position in reverse postorder.
    places: Vec<usize>,
    /// By position: that of the immediate dominator, which comes earlier; the entry's is itself.
    parents: Vec<usize>,
}

impl DominatorTree {
    /// The dominator tree of `cfg`.
    #[must_use]
    pub fn of(cfg: &Cfg) -> Self {
        let order = cfg.reverse_postorder();
        let mut places = vec![UNREACHED; cfg.blocks()];
        order.iter().enumerate().for_each(|(place, block)| places[*block] = place);
        let mut tree = Self { places, parents: vec![UNREACHED; order.len()] };
        tree.parents[0] = 0;
        // By position: the block and the round of the last visit.
        let mut met = vec![(0, 0); order.len()];
        let (mut has_changed, mut round) = (true, 0);
        while has_changed {
            has_changed = false;
            round += 1;
            for (place, block) in order.iter().enumerate().skip(1) {
                let before = cfg.predecessors(*block).iter().map(|block| tree.places[*block]);
                let known = before.filter(|place| *place != UNREACHED && tree.parents[*place] != UNREACHED);
                let mut ways = Ways { parents: &tree.parents, met: &mut met, stamp: (place, round) };
                if let Some(parent) = known.reduce(|common, other| ways.common(common, other)) {
                    has_changed |= std::mem::replace(&mut tree.parents[place], parent) != parent;
                }
            }
        }
        tree
    }

    /// Whether every path from the entry to `block` passes `dominator`. Blocks dominate themselves, and all
    /// blocks dominate an unreachable one.
    #[must_use]
    pub fn dominates(&self, dominator: usize, block: usize) -> bool {
        let (wanted, mut place) = (self.places[dominator], self.places[block]);
        if place == UNREACHED {
            return true;
        }
        while place > wanted {
            place = self.parents[place];
        }
        place == wanted
    }
}

/// The paths up from the predecessors of a block. Each step up is taken once, so a block with many
/// predecessors costs the steps of their union.
struct Ways<'a> {
    parents: &'a [usize],
    met: &'a mut [(usize, usize)],
    stamp: (usize, usize),
}

impl Ways<'_> {
    /// The closest common dominator of `other` and all earlier predecessors, whose common one is `common`.
    fn common(&mut self, mut common: usize, mut other: usize) -> usize {
        while common != other {
            if common > other {
                self.met[common] = self.stamp;
                common = self.parents[common];
            } else if std::mem::replace(&mut self.met[other], self.stamp) == self.stamp {
                // An earlier predecessor met here and led to `common`, so this one does too.
                return common;
            } else {
                other = self.parents[other];
            }
        }
        common
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition of dominance: `block` is unreachable without `dominator`.
    fn is_cut_off(edges: &[Vec<usize>], dominator: usize, block: usize) -> bool {
        let mut without = edges.to_vec();
        without[dominator].clear();
        let start = if dominator == 0 { Vec::new() } else { vec![0] };
        dominator == block || !crate::reached(&without, start)[block]
    }

    #[track_caller]
    fn check(edges: &[Vec<usize>]) {
        let tree = DominatorTree::of(&Cfg::new(edges.to_vec()));
        for (a, b) in (0..edges.len()).flat_map(|a| (0..edges.len()).map(move |b| (a, b))) {
            assert_eq!(tree.dominates(a, b), is_cut_off(edges, a, b), "{a} over {b} in {edges:?}");
        }
    }

    #[test]
    fn drawn_graphs_have_their_dominators() {
        let mut state = 1_u64;
        let mut draw = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % below
        };
        for _ in 0..20_000 {
            let blocks = 2 + draw(9);
            let edges: Vec<Vec<usize>> =
                (0..blocks).map(|_| (0..draw(4)).map(|_| draw(blocks)).collect()).collect();
            check(&edges);
        }
    }

    #[test]
    fn what_dominates_cannot_be_avoided() {
        let graphs = [
            // A diamond in a loop, with an exit.
            vec![vec![1], vec![2, 3], vec![4], vec![4], vec![1, 5], vec![]],
            // A loop with two entries, and an unreachable block.
            vec![vec![1, 2], vec![2], vec![1, 3], vec![], vec![1]],
            // The paper's example that needs more than one pass.
            vec![vec![1, 2], vec![3], vec![4, 5], vec![4], vec![3, 5], vec![4]],
            vec![vec![0]],
        ];
        graphs.iter().for_each(|edges| check(edges));
    }
}
