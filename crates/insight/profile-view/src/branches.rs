//! Derives how often each side of a branch was taken from execution counts: what enters a block also
//! leaves it.
//!
//! Calls that do not return, computed addresses and entries from elsewhere reduce this information, and a
//! side may remain unknown. Reported counts are exact.

use std::collections::{BTreeMap, BTreeSet};

use antares_program::{Block, Function, Program, Terminator};

/// A conditional branch of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BranchRuns {
    pub(crate) pc: u64,
    /// Number of executions.
    pub(crate) ran: u64,
    /// How often execution fell through, and how often it jumped; `None` if unknown.
    pub(crate) sides: [Option<u64>; 2],
}

/// A basic block.
#[derive(Debug, Default)]
struct Line {
    /// Executions of its last instruction.
    ended: u64,
    /// The last instruction.
    last: u64,
    is_branch: bool,
    into: Side,
    out: Side,
}

/// The edges into or out of a line.
#[derive(Debug, Default)]
struct Side {
    /// Indices of its edges.
    edges: Vec<usize>,
    /// Number of unknown edges, and the XOR of their indices.
    unknown: usize,
    mixed: usize,
    /// Executions by unknown edges; `None` if the known edges exceed the total.
    rest: Option<u64>,
    /// Whether there may be other edges.
    is_open: bool,
}

impl Side {
    fn new(runs: u64, is_open: bool) -> Self {
        Self { rest: Some(runs), is_open, ..Self::default() }
    }

    fn push(&mut self, edge: usize) {
        self.edges.push(edge);
        self.unknown += 1;
        self.mixed ^= edge;
    }

    fn settle(&mut self, edge: usize, runs: u64) {
        self.unknown -= 1;
        self.mixed ^= edge;
        self.rest = self.rest.and_then(|rest| rest.checked_sub(runs));
    }
}

/// The lines of a program, by address, and the edges between them.
#[derive(Default)]
struct Flow {
    lines: BTreeMap<u64, Line>,
    edges: Vec<Edge>,
}

struct Edge {
    from: u64,
    to: u64,
    runs: Option<u64>,
}

/// All conditional branches of `program`, computed from the execution counts of its instructions.
pub(crate) fn branches(program: &Program, counts: &BTreeMap<u64, u64>) -> Vec<BranchRuns> {
    let mut flow = Flow::default();
    let mut seen = BTreeSet::new();
    for function in &program.functions {
        for block in &function.blocks {
            if seen.insert(block.pc.0) {
                flow.add(function, block, counts);
            }
        }
        if let Some(line) = flow.lines.get_mut(&function.entry.0) {
            line.into.is_open = true;
        }
    }
    flow.mark_entries(program);
    flow.mark_overlaps(program);
    flow.connect();
    flow.solve();
    flow.rows()
}

impl Flow {
    fn add(&mut self, function: &Function, block: &Block, counts: &BTreeMap<u64, u64>) {
        let count = |pc: u64| counts.get(&pc).copied().unwrap_or(0);
        let Some((last, _)) = block.instructions.last() else { return };
        let ran = block.instructions.iter().map(|(pc, _)| count(pc.0)).max().unwrap_or(0);
        let at = |id: &antares_program::BlockId| Some(function.blocks.get(id.0 as usize)?.pc.0);
        let (ways, is_left) = match &block.terminator {
            Terminator::Jump(to) => (vec![at(to)], false),
            Terminator::Branch { taken, otherwise } => (vec![at(otherwise), at(taken)], false),
            // The callee may end the script.
            Terminator::Call { to, .. } | Terminator::IndirectCall { to, .. } | Terminator::Ecall(to) => {
                (vec![at(to)], true)
            }
            Terminator::IndirectJump { candidates, is_table } => {
                (candidates.iter().map(at).collect(), !is_table)
            }
            _ => (Vec::new(), true),
        };
        let is_branch = matches!(block.terminator, Terminator::Branch { .. });
        let ended = if is_branch { count(last.0) } else { ran };
        let (into, out) = (Side::new(ran, false), Side::new(ended, is_left));
        let line = Line { ended, last: last.0, is_branch, into, out };
        self.lines.insert(block.pc.0, line);
        self.edges.extend(ways.into_iter().flatten().map(|to| Edge { from: block.pc.0, to, runs: None }));
    }

    /// Marks blocks that computed jumps may reach by unlisted edges.
    fn mark_entries(&mut self, program: &Program) {
        for function in &program.functions {
            for block in &function.blocks {
                let open = match &block.terminator {
                    Terminator::IndirectJump { candidates, is_table: false } => candidates,
                    Terminator::Return { locals } => locals,
                    _ => continue,
                };
                for id in open.iter() {
                    let pc = function.blocks.get(id.0 as usize).map(|block| block.pc.0);
                    pc.and_then(|pc| self.lines.get_mut(&pc))
                        .into_iter()
                        .for_each(|line| line.into.is_open = true);
                }
            }
        }
    }

    /// Removes code that is part of two lines, since another function enters it inside: it counts twice.
    fn mark_overlaps(&mut self, program: &Program) {
        let mut owners: BTreeMap<u64, u64> = BTreeMap::new();
        let mut shared = BTreeSet::new();
        for block in program.functions.iter().flat_map(|function| &function.blocks) {
            for (pc, _) in &block.instructions {
                let owner = *owners.entry(pc.0).or_insert(block.pc.0);
                if owner != block.pc.0 {
                    shared.extend([owner, block.pc.0]);
                }
            }
        }
        let mut reached = Vec::new();
        self.edges.retain(|edge| {
            let is_shared = shared.contains(&edge.from);
            reached.extend(is_shared.then_some(edge.to));
            !is_shared
        });
        for pc in shared {
            self.lines.remove(&pc);
        }
        for pc in reached {
            self.lines.get_mut(&pc).into_iter().for_each(|line| line.into.is_open = true);
        }
    }

    fn connect(&mut self) {
        let lines = &self.lines;
        let mut lost = Vec::new();
        self.edges.retain(|edge| {
            let is_known = lines.contains_key(&edge.to);
            lost.extend((!is_known).then_some(edge.from));
            is_known
        });
        for pc in lost {
            self.lines.get_mut(&pc).into_iter().for_each(|line| line.out.is_open = true);
        }
        for (place, edge) in self.edges.iter().enumerate() {
            self.lines.get_mut(&edge.from).into_iter().for_each(|line| line.out.push(place));
            self.lines.get_mut(&edge.to).into_iter().for_each(|line| line.into.push(place));
        }
    }

    /// Propagates known counts until nothing changes. Each edge is settled once.
    fn solve(&mut self) {
        let mut open: Vec<u64> = self.lines.keys().copied().collect();
        while let Some(pc) = open.pop() {
            let Some(line) = self.lines.get(&pc) else { continue };
            let mut found = Vec::new();
            for side in [&line.into, &line.out].into_iter().filter(|side| side.unknown > 0) {
                match side.rest {
                    Some(0) => found.extend(side.edges.iter().map(|edge| (*edge, 0))),
                    Some(rest) if side.unknown == 1 && !side.is_open => found.push((side.mixed, rest)),
                    _ => {}
                }
            }
            for (edge, runs) in found {
                open.extend(self.settle(edge, runs).into_iter().flatten());
            }
        }
    }

    /// Returns the lines at both ends.
    fn settle(&mut self, place: usize, runs: u64) -> Option<[u64; 2]> {
        let edge = self.edges.get_mut(place).filter(|edge| edge.runs.is_none())?;
        edge.runs = Some(runs);
        let (from, to) = (edge.from, edge.to);
        self.lines.get_mut(&from)?.out.settle(place, runs);
        self.lines.get_mut(&to)?.into.settle(place, runs);
        Some([from, to])
    }

    fn rows(&self) -> Vec<BranchRuns> {
        let branches = self.lines.values().filter(|line| line.is_branch);
        let rows = branches.map(|line| {
            let runs = |side: usize| self.edges[*line.out.edges.get(side)?].runs;
            let is_whole = line.out.edges.len() == 2;
            let sides = if is_whole { [runs(0), runs(1)] } else { [None, None] };
            BranchRuns { pc: line.last, ran: line.ended, sides }
        });
        rows.collect()
    }
}
