//! How control flows between the blocks of a function.

use std::collections::BTreeMap;

use crate::Terminator;

/// The blocks that each block may go to, each once.
pub fn successors<'a>(terminators: impl Iterator<Item = &'a Terminator>) -> Vec<Vec<usize>> {
    let of = |terminator: &Terminator| {
        let mut to: Vec<usize> = terminator.successors().iter().map(|id| id.0 as usize).collect();
        to.sort_unstable();
        to.dedup();
        to
    };
    terminators.map(of).collect()
}

/// Whether a way of one edge or more leads from block `from` to block `to`.
pub fn reaches(successors: &[Vec<usize>], from: usize, to: usize) -> bool {
    let mut is_seen = vec![false; successors.len()];
    let mut open = vec![from];
    while let Some(block) = open.pop() {
        for &next in &successors[block] {
            if next == to {
                return true;
            }
            if !std::mem::replace(&mut is_seen[next], true) {
                open.push(next);
            }
        }
    }
    false
}

/// The blocks that may go to each block.
pub fn predecessors(successors: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut predecessors = vec![Vec::new(); successors.len()];
    for (from, to) in successors.iter().enumerate() {
        to.iter().for_each(|to| predecessors[*to].push(from));
    }
    predecessors
}

/// The blocks that can be reached from the first, each behind all that lead to it but for edges back.
pub fn forward(successors: &[Vec<usize>]) -> Vec<usize> {
    search(successors).0
}

/// Edges `(from, to)` to a block that is still open in a depth-first search from the first block: every cycle has one.
pub fn back_edges(successors: &[Vec<usize>]) -> Vec<(usize, usize)> {
    search(successors).1
}

/// A depth-first search from the first block: the blocks, the last that was closed first, and the edges to open ones.
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

/// How many loops each block is in. A loop is what leads to an edge back without passing the block that the edge goes to.
pub fn loop_depths(successors: &[Vec<usize>]) -> Vec<u32> {
    let predecessors = predecessors(successors);
    let mut loops: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (from, header) in back_edges(successors) {
        loops.entry(header).or_default().push(from);
    }
    let mut depths = vec![0; successors.len()];
    let mut last_loop = vec![usize::MAX; successors.len()];
    for (header, mut open) in loops {
        open.push(header);
        while let Some(block) = open.pop() {
            if last_loop[block] == header {
                continue;
            }
            last_loop[block] = header;
            depths[block] += 1;
            if block != header {
                open.extend(&predecessors[block]);
            }
        }
    }
    depths
}
