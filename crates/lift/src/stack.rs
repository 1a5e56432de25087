//! Where `sp` stands: its distance from the function's entry at each block, and whether functions give it back.

use std::collections::VecDeque;

use crate::{function::FunctionDraft, ir::Terminator};

/// What is known of `sp`.
pub(crate) struct StackFacts {
    /// By function: whether `sp` is the same at every return as at the entry.
    pub(crate) is_kept: Vec<bool>,
    /// By function and block: distance of `sp` from its place at the function's entry.
    pub(crate) distances: Vec<Vec<Option<i64>>>,
}

/// Analyzes all functions. Starts by trusting every function and withdraws trust until nothing changes; since a
/// function only returns after its callees have, what remains is true by induction over the length of a run.
pub(crate) fn analyze(functions: &[FunctionDraft]) -> StackFacts {
    let mut facts = StackFacts {
        is_kept: vec![true; functions.len()],
        distances: functions.iter().map(|function| vec![None; function.blocks.len()]).collect(),
    };
    let callers = callers(functions);
    let mut queue: VecDeque<usize> = (0..functions.len()).collect();
    let mut is_queued = vec![true; functions.len()];
    while let Some(index) = queue.pop_front() {
        is_queued[index] = false;
        let distances = distances(&functions[index], &facts.is_kept);
        let is_kept = facts.is_kept[index] && keeps(&functions[index], &distances, &facts.is_kept);
        facts.distances[index] = distances.into_iter().map(Distance::known).collect();
        if is_kept != facts.is_kept[index] {
            facts.is_kept[index] = is_kept;
            for &caller in &callers[index] {
                if !std::mem::replace(&mut is_queued[caller], true) {
                    queue.push_back(caller);
                }
            }
        }
    }
    facts
}

fn callers(functions: &[FunctionDraft]) -> Vec<Vec<usize>> {
    let mut callers = vec![Vec::new(); functions.len()];
    for (index, function) in functions.iter().enumerate() {
        for block in &function.blocks {
            if let Terminator::Call { callee, .. } | Terminator::TailCall { callee, .. } = block.terminator {
                callers[callee.0 as usize].push(index);
            }
        }
    }
    callers
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Distance {
    Unvisited,
    Known(i64),
    Unknown,
}

impl Distance {
    fn known(self) -> Option<i64> {
        match self {
            Self::Known(distance) => Some(distance),
            _ => None,
        }
    }

    fn plus(self, moved: Option<i64>) -> Self {
        match (self, moved) {
            (Self::Known(distance), Some(moved)) => {
                distance.checked_add(moved).map_or(Self::Unknown, Self::Known)
            }
            _ => Self::Unknown,
        }
    }

    fn meet(self, other: Self) -> Self {
        match (self, other) {
            (Self::Unvisited, distance) | (distance, Self::Unvisited) => distance,
            _ if self == other => self,
            _ => Self::Unknown,
        }
    }
}

fn distances(function: &FunctionDraft, is_kept: &[bool]) -> Vec<Distance> {
    let mut distances = vec![Distance::Unvisited; function.blocks.len()];
    distances[0] = Distance::Known(0);
    let mut work = vec![0];
    while let Some(index) = work.pop() {
        let block = &function.blocks[index];
        let mut out = distances[index].plus(block.sp_moved);
        if let Terminator::Call { callee, .. } = block.terminator
            && !is_kept[callee.0 as usize]
        {
            out = Distance::Unknown;
        }
        for successor in block.terminator.successors() {
            let successor = successor.0 as usize;
            let met = distances[successor].meet(out);
            if met != distances[successor] {
                distances[successor] = met;
                work.push(successor);
            }
        }
    }
    distances
}

fn keeps(function: &FunctionDraft, distances: &[Distance], is_kept: &[bool]) -> bool {
    function.blocks.iter().zip(distances).all(|(block, &distance)| {
        let is_back = distance == Distance::Unvisited || distance.plus(block.sp_moved) == Distance::Known(0);
        match &block.terminator {
            Terminator::Return { .. } => is_back,
            Terminator::JumpIndirect { may_call, .. } => is_back || !may_call,
            Terminator::TailCall { callee, .. } => is_back && is_kept[callee.0 as usize],
            _ => true,
        }
    })
}
