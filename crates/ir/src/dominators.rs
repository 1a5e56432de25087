//! Dominators: which blocks every path from the entry to a block passes.

use crate::Cfg;

/// The place of a block that no path leads to.
const UNREACHED: usize = usize::MAX;

/// The dominator tree of a function, made by Cooper, Harvey and Kennedy's "A Simple, Fast Dominance Algorithm": parents only ever
/// move up, until all blocks agree with those that lead to them.
#[derive(Debug)]
pub struct DominatorTree {
    /// By block: its place in reverse postorder.
    places: Vec<usize>,
    /// By place: that of the closest dominator, which is before it; the entry's is itself.
    parents: Vec<usize>,
}

impl DominatorTree {
    /// That of the function of `cfg`.
    #[must_use]
    pub fn of(cfg: &Cfg) -> Self {
        let order = cfg.reverse_postorder();
        let mut places = vec![UNREACHED; cfg.blocks()];
        order.iter().enumerate().for_each(|(place, block)| places[*block] = place);
        let mut tree = Self { places, parents: vec![UNREACHED; order.len()] };
        tree.parents[0] = 0;
        let mut has_changed = true;
        while has_changed {
            has_changed = false;
            for (place, block) in order.iter().enumerate().skip(1) {
                let before = cfg.predecessors(*block).iter().map(|block| tree.places[*block]);
                let known = before.filter(|place| *place != UNREACHED && tree.parents[*place] != UNREACHED);
                if let Some(parent) = known.reduce(|a, b| tree.common(a, b)) {
                    has_changed |= std::mem::replace(&mut tree.parents[place], parent) != parent;
                }
            }
        }
        tree
    }

    /// The place of the closest block that dominates both.
    fn common(&self, mut a: usize, mut b: usize) -> usize {
        while a != b {
            if a < b {
                b = self.parents[b];
            } else {
                a = self.parents[a];
            }
        }
        a
    }

    /// Whether every path from the entry to `block` passes `dominator`; blocks dominate themselves, and all do one that no path leads to.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// By its definition: whether `block` cannot be reached without `dominator`.
    fn is_cut_off(edges: &[Vec<usize>], dominator: usize, block: usize) -> bool {
        let mut without = edges.to_vec();
        without[dominator].clear();
        let start = if dominator == 0 { Vec::new() } else { vec![0] };
        dominator == block || !crate::reached(&without, start)[block]
    }

    #[test]
    fn what_dominates_cannot_be_avoided() {
        let graphs = [
            // A diamond in a loop, with an exit.
            vec![vec![1], vec![2, 3], vec![4], vec![4], vec![1, 5], vec![]],
            // A loop with two ways in, and a block that nothing leads to.
            vec![vec![1, 2], vec![2], vec![1, 3], vec![], vec![1]],
            // The example of the paper for which one walk is too few.
            vec![vec![1, 2], vec![3], vec![4, 5], vec![4], vec![3, 5], vec![4]],
            vec![vec![0]],
        ];
        for edges in graphs {
            let tree = DominatorTree::of(&Cfg::new(edges.clone()));
            for (a, b) in (0..edges.len()).flat_map(|a| (0..edges.len()).map(move |b| (a, b))) {
                assert_eq!(tree.dominates(a, b), is_cut_off(&edges, a, b), "{a} over {b} in {edges:?}");
            }
        }
    }
}
