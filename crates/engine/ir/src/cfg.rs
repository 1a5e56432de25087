//! The control-flow graph of a function, with its traversal orders.

use crate::{Block, Terminator};

/// The control flow between the blocks of a function: a snapshot that does not follow changes.
#[derive(Debug, PartialEq, Eq)]
pub struct Cfg {
    successors: Vec<Vec<usize>>,
    predecessors: Vec<Vec<usize>>,
    reverse_postorder: Vec<usize>,
    back_edges: Vec<(usize, usize)>,
}

impl Cfg {
    /// The graph of a function. `blocks` has at least one block, and the first is the entry.
    #[must_use]
    pub fn of(blocks: &[Block]) -> Self {
        Self::new(blocks.iter().map(|block| successors(&block.terminator)).collect())
    }

    /// The graph with these successors for each block.
    #[must_use]
    pub fn new(successors: Vec<Vec<usize>>) -> Self {
        let mut predecessors = vec![Vec::new(); successors.len()];
        for (from, to) in successors.iter().enumerate() {
            to.iter().for_each(|to| predecessors[*to].push(from));
        }
        let (reverse_postorder, mut back_edges) = search(&successors);
        back_edges.sort_unstable();
        Self { successors, predecessors, reverse_postorder, back_edges }
    }

    /// Number of blocks.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.successors.len()
    }

    /// The possible successors of `block`, each once, ascending.
    #[must_use]
    pub fn successors(&self, block: usize) -> &[usize] {
        &self.successors[block]
    }

    /// The possible predecessors of `block`, ascending.
    #[must_use]
    pub fn predecessors(&self, block: usize) -> &[usize] {
        &self.predecessors[block]
    }

    /// The blocks reachable from the first, each after all its predecessors except over back edges.
    #[must_use]
    pub fn reverse_postorder(&self) -> &[usize] {
        &self.reverse_postorder
    }

    /// Edges `(from, to)` to a block that is still open in a depth-first search from the first block,
    /// ascending. Every reachable cycle has one.
    #[must_use]
    pub fn back_edges(&self) -> &[(usize, usize)] {
        &self.back_edges
    }

    /// Whether the edge is a back edge.
    #[must_use]
    pub fn is_back_edge(&self, from: usize, to: usize) -> bool {
        self.back_edges.binary_search(&(from, to)).is_ok()
    }

    /// By block: whether a back edge leads to it.
    #[must_use]
    pub fn loop_headers(&self) -> Vec<bool> {
        let mut is_header = vec![false; self.blocks()];
        self.back_edges.iter().for_each(|(_, to)| is_header[*to] = true);
        is_header
    }

    /// Whether a path of one edge or more leads from block `from` to block `to`.
    #[must_use]
    pub fn reaches(&self, from: usize, to: usize) -> bool {
        reached(&self.successors, self.successors[from].clone())[to]
    }
}

/// By node of a graph: whether it is reachable from the nodes in `open`, including themselves.
#[must_use]
pub fn reached(edges: &[Vec<usize>], mut open: Vec<usize>) -> Vec<bool> {
    let mut is_reached = vec![false; edges.len()];
    while let Some(node) = open.pop() {
        if !std::mem::replace(&mut is_reached[node], true) {
            open.extend(&edges[node]);
        }
    }
    is_reached
}

/// The possible successor blocks of a terminator, each once.
#[must_use]
pub fn successors(terminator: &Terminator) -> Vec<usize> {
    let mut to: Vec<usize> = terminator.successors().map(|id| id.0 as usize).collect();
    to.sort_unstable();
    to.dedup();
    to
}

/// A depth-first search from the first block: the blocks in reverse postorder, and the edges to open ones.
fn search(successors: &[Vec<usize>]) -> (Vec<usize>, Vec<(usize, usize)>) {
    let (mut is_seen, mut is_open) = (vec![false; successors.len()], vec![false; successors.len()]);
    let (mut closed, mut edges) = (Vec::with_capacity(successors.len()), Vec::new());
    let mut path = vec![(0, 0)];
    (is_seen[0], is_open[0]) = (true, true);
    while let Some((block, edge)) = path.last_mut() {
        let block = *block;
        let Some(&next) = successors[block].get(*edge) else {
            is_open[block] = false;
            closed.push(block);
            path.pop();
            continue;
        };
        *edge += 1;
        if is_open[next] {
            edges.push((block, next));
        } else if !is_seen[next] {
            (is_seen[next], is_open[next]) = (true, true);
            path.push((next, 0));
        }
    }
    closed.reverse();
    (closed, edges)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_is_behind_what_leads_to_it() {
        // 0 -> 1 or 2 -> 3 -> 1, and 4 without predecessors.
        let cfg = Cfg::new(vec![vec![1, 2], vec![3], vec![3], vec![1], vec![0]]);
        assert_eq!(cfg.back_edges(), [(3, 1)]);
        assert_eq!(cfg.predecessors(3), [1, 2]);
        assert_eq!(cfg.loop_headers(), [false, true, false, false, false]);
        let place = |block| cfg.reverse_postorder().iter().position(|at| *at == block);
        assert!(place(0) < place(1) && place(2) < place(3) && place(4).is_none());
        assert!(cfg.reaches(1, 1) && !cfg.reaches(0, 0));
    }
}
