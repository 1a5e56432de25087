//! Where `sp` stands: its distance from the function's entry at each block, and whether functions give it back.

use std::collections::VecDeque;

use antares_ir::{SpAfter, Terminator};
use antares_program::Reg;

use crate::function::{BlockDraft, FunctionDraft, StackMove};

/// What is known of `sp` in a function.
pub(crate) struct StackFacts {
    /// Where it is after a call of the function.
    pub(crate) after: SpAfter,
    /// By how much a call of the function moves it.
    moves: Distance,
    /// By block: distance of `sp` from its place at the function's entry.
    pub(crate) distances: Vec<Option<i64>>,
}

/// Analyzes all functions. Starts with functions that never return and withdraws trust until nothing changes; since a
/// function only returns after its callees have, what remains is true by induction over the length of a run. Where trust
/// is gone because nobody knows where `sp` is, callers compare, and the distance is known again behind the call.
pub(crate) fn analyze(functions: &[FunctionDraft]) -> Vec<StackFacts> {
    let fact = |function: &FunctionDraft| StackFacts {
        after: SpAfter::Same,
        moves: Distance::Unvisited,
        distances: vec![None; function.blocks.len()],
    };
    let mut facts: Vec<StackFacts> = functions.iter().map(fact).collect();
    let callers = callers(functions);
    let mut queue: VecDeque<usize> = (0..functions.len()).collect();
    let mut is_queued = vec![true; functions.len()];
    while let Some(index) = queue.pop_front() {
        is_queued[index] = false;
        let distances = distances(&functions[index], &facts);
        let (after, moves) = after(&functions[index], &distances, &facts);
        let (after, moves) = (worse(facts[index].after, after), facts[index].moves.meet(moves));
        facts[index].distances = distances.into_iter().map(|at| at.sp.known()).collect();
        if (after, moves) != (facts[index].after, facts[index].moves) {
            (facts[index].after, facts[index].moves) = (after, moves);
            for &caller in &callers[index] {
                if !std::mem::replace(&mut is_queued[caller], true) {
                    queue.push_back(caller);
                }
            }
        }
    }
    facts
}

fn worse(a: SpAfter, b: SpAfter) -> SpAfter {
    match (a, b) {
        (SpAfter::Moved, _) | (_, SpAfter::Moved) => SpAfter::Moved,
        (SpAfter::Compared, _) | (_, SpAfter::Compared) => SpAfter::Compared,
        (SpAfter::Same, SpAfter::Same) => SpAfter::Same,
    }
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

/// How far a value is from where `sp` was at the function's entry.
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

    fn plus(self, moved: i64) -> Self {
        match self {
            Self::Known(distance) => distance.checked_add(moved).map_or(Self::Unknown, Self::Known),
            other => other,
        }
    }

    /// Behind a function that starts there.
    fn behind(self, callee: &StackFacts) -> Self {
        match (callee.after, callee.moves) {
            // As far as is known it never returns.
            (_, Self::Unvisited) => Self::Unvisited,
            (SpAfter::Moved, Self::Known(moves)) => self.plus(moves),
            (SpAfter::Moved, Self::Unknown) => Self::Unknown,
            // Callers compare where it is not certain.
            (SpAfter::Same | SpAfter::Compared, _) => self,
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

/// Distances of `sp` and of `s0`, which holds it where a frame has no fixed size.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Distances {
    sp: Distance,
    frame: Distance,
}

impl Distances {
    const UNVISITED: Self = Self { sp: Distance::Unvisited, frame: Distance::Unvisited };
    const ENTRY: Self = Self { sp: Distance::Known(0), frame: Distance::Unknown };

    fn after(self, block: &BlockDraft) -> Self {
        let moved = |moved: Option<StackMove>| match moved {
            Some((Reg::SP, by)) => self.sp.plus(by),
            Some((_, by)) => self.frame.plus(by),
            None => Distance::Unknown,
        };
        Self { sp: moved(block.sp_moved), frame: moved(block.frame_moved) }
    }

    fn meet(self, other: Self) -> Self {
        Self { sp: self.sp.meet(other.sp), frame: self.frame.meet(other.frame) }
    }
}

fn distances(function: &FunctionDraft, facts: &[StackFacts]) -> Vec<Distances> {
    let mut distances = vec![Distances::UNVISITED; function.blocks.len()];
    distances[0] = Distances::ENTRY;
    let mut work = vec![0];
    while let Some(index) = work.pop() {
        let block = &function.blocks[index];
        let mut out = distances[index].after(block);
        if block.terminator.is_call() {
            // What the callee did with `s0` is not known.
            out.frame = Distance::Unknown;
        }
        if let Terminator::Call { callee, .. } = block.terminator {
            out.sp = out.sp.behind(&facts[callee.0 as usize]);
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

/// Where `sp` is after the function, and by how much it has moved, if it is after those that it calls as `facts` say.
fn after(function: &FunctionDraft, distances: &[Distances], facts: &[StackFacts]) -> (SpAfter, Distance) {
    // Millicode is there to move it, and so is what calls nobody and moves it by a number.
    let is_leaf = !function.blocks.iter().any(|block| block.terminator.is_call());
    let (mut after, mut moves) = (SpAfter::Same, Distance::Unvisited);
    for (block, distances) in function.blocks.iter().zip(distances) {
        if *distances == Distances::UNVISITED {
            continue;
        }
        let end = distances.after(block).sp;
        let (end, callee) = match &block.terminator {
            Terminator::Return { .. } | Terminator::JumpIndirect { may_call: true, .. } => {
                (end, SpAfter::Same)
            }
            // It will be let go where the frame is gone, and comes back with that.
            Terminator::JumpIndirect { .. } if end == Distance::Known(0) => (end, SpAfter::Same),
            Terminator::TailCall { callee, .. } => {
                let callee = &facts[callee.0 as usize];
                let after = if callee.after == SpAfter::Moved { SpAfter::Same } else { callee.after };
                (end.behind(callee), after)
            }
            _ => continue,
        };
        let own = match end {
            Distance::Known(0) | Distance::Unvisited => SpAfter::Same,
            Distance::Known(_) if is_leaf => SpAfter::Moved,
            _ if function.link != Reg::RA => SpAfter::Moved,
            _ => SpAfter::Compared,
        };
        (after, moves) = (worse(after, worse(own, callee)), moves.meet(end));
    }
    (after, moves)
}
