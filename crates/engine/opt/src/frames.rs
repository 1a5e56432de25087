//! Computes the distance of `sp` from its value at function entry, at each block, and whether functions
//! restore it.

use antares_ir::{
    Block, Cfg, Function, Linear, Module, Op, SpAfter, Terminator, Value,
    dataflow::{self, Direction, Effort, Problem, Worklist},
};
use antares_program::Reg;

/// Facts about `sp` in a function.
struct StackFacts {
    /// The value of `sp` after a call of the function.
    after: SpAfter,
    /// The change of `sp` by a call of the function.
    moves: Distance,
    /// By block: distance of `sp` from its value at function entry.
    distances: Vec<Option<i64>>,
}

/// Computes `sp` for all functions, and replaces frame checks by one check at each entry.
pub(crate) fn find(module: &mut Module) {
    let moves: Vec<Vec<Moves>> =
        module.functions.iter().map(|function| function.blocks.iter().map(Moves::of).collect()).collect();
    let facts = analyze(module, &moves);
    for ((function, facts), moves) in module.functions.iter_mut().zip(facts).zip(moves) {
        function.sp_after = facts.after;
        for ((block, distance), moves) in function.blocks.iter_mut().zip(facts.distances).zip(moves) {
            let low = distance.and_then(|distance| take_frame(block, distance));
            function.frame_low = function.frame_low.into_iter().chain(low).min();
            let end = match (distance, moves.sp) {
                (Some(distance), Some((Reg::SP, by))) => Some(distance.wrapping_add(by)),
                _ => None,
            };
            limit_tail_calls(block, function.link == Reg::RA && end == Some(0));
        }
    }
}

/// Removes the checks that a frame check at function entry covers: checks of `sp` (at block entry, `distance`
/// from the function's) below the function's entry value. Returns the lowest offset of a removed check.
fn take_frame(block: &mut Block, distance: i64) -> Option<i64> {
    let sp = Value::at(block.ops.iter().position(|op| *op == Op::Read(Reg::SP))?);
    let low = |op: &Op| match *op {
        Op::Check { base, low, high, .. } if base == sp && high.checked_add(distance)? <= 0 => {
            low.checked_add(distance)
        }
        _ => None,
    };
    let lowest = block.ops.iter().filter_map(low).min()?;
    // Reads precede all checks, so `sp` keeps its number.
    let mut checks = block.take_checks();
    checks.retain(|op| low(op).is_none());
    block.put_checks(&checks);
    Some(lowest)
}

/// Allows an indirect jump to be a tail call only if it `may_leave`: the stack frame is gone, and the
/// function returns through `ra`, as all functions found by address do. A jump without candidates is always a
/// tail call.
fn limit_tail_calls(block: &mut Block, may_leave: bool) {
    // A jump through a complete table is no tail call already.
    if let Terminator::JumpIndirect { may_call, candidates, link, .. } = &mut block.terminator
        && *may_call
    {
        *may_call = candidates.is_empty() || may_leave;
        *link = link.filter(|_| *may_call);
    }
}

/// The values of `sp` and `s0` after a block: the entry value of one of them, plus a number.
struct Moves {
    sp: Option<(Reg, i64)>,
    frame: Option<(Reg, i64)>,
}

impl Moves {
    fn of(block: &Block) -> Self {
        let moved = |register: Reg| {
            let Some(value) = block.written(register) else { return Some((register, 0)) };
            let Linear { root, offset } = Linear::of(&block.ops, value, i64::MAX);
            let from = block.read_of(root).filter(|from| [Reg::SP, Reg::S0].contains(from))?;
            Some((from, offset))
        };
        Self { sp: moved(Reg::SP), frame: moved(Reg::S0) }
    }
}

/// Analyzes all functions. Starts with the assumption that none returns, and weakens it until nothing
/// changes. Since a function returns only after its callees, the result holds by induction over the length of
/// a run. If `sp` is unknown, callers compare it, so its distance is known again after the call.
fn analyze(module: &Module, moves: &[Vec<Moves>]) -> Vec<StackFacts> {
    let functions = &module.functions;
    let cfgs: Vec<Cfg> = functions.iter().map(|function| Cfg::of(&function.blocks)).collect();
    let fact = |function: &Function| StackFacts {
        after: SpAfter::Same,
        moves: Distance::Unvisited,
        distances: vec![None; function.blocks.len()],
    };
    let mut facts: Vec<StackFacts> = functions.iter().map(fact).collect();
    let callers = module.callers();
    let mut queue = Worklist::of(0..functions.len());
    while let Some(index) = queue.pop() {
        let distances = distances(&functions[index], &moves[index], &facts, &cfgs[index]);
        let (after, moves) = after(&functions[index], &moves[index], &distances, &facts);
        let (after, moves) = (facts[index].after.max(after), facts[index].moves.meet(moves));
        facts[index].distances = distances.into_iter().map(|at| at.sp.known()).collect();
        if (after, moves) != (facts[index].after, facts[index].moves) {
            (facts[index].after, facts[index].moves) = (after, moves);
            queue.add(&callers[index]);
        }
    }
    facts
}

/// The distance of a value from `sp` at function entry.
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

    /// The distance after a call of `callee` at this distance.
    fn after_call(self, callee: &StackFacts) -> Self {
        match (callee.after, callee.moves) {
            // So far, no path through the callee returns.
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

/// Distances of `sp` and of `s0`, which holds it in frames without a fixed size.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Distances {
    sp: Distance,
    frame: Distance,
}

impl Distances {
    const UNVISITED: Self = Self { sp: Distance::Unvisited, frame: Distance::Unvisited };
    const ENTRY: Self = Self { sp: Distance::Known(0), frame: Distance::Unknown };

    fn after(self, moves: &Moves) -> Self {
        let moved = |moved: Option<(Reg, i64)>| match moved {
            Some((Reg::SP, by)) => self.sp.plus(by),
            Some((_, by)) => self.frame.plus(by),
            None => Distance::Unknown,
        };
        Self { sp: moved(moves.sp), frame: moved(moves.frame) }
    }

    fn meet(self, other: Self) -> Self {
        Self { sp: self.sp.meet(other.sp), frame: self.frame.meet(other.frame) }
    }
}

/// The dataflow problem of `sp` and `s0` in a function, given `facts` about callees. The facts of a block
/// change at most three times.
struct Standing<'a> {
    function: &'a Function,
    moves: &'a [Moves],
    facts: &'a [StackFacts],
}

impl Problem for Standing<'_> {
    type Fact = Distances;

    fn transfer(&self, block: usize, distances: &Distances) -> Distances {
        let terminator = &self.function.blocks[block].terminator;
        let mut out = distances.after(&self.moves[block]);
        if terminator.is_call() {
            // The callee may have changed `s0`.
            out.frame = Distance::Unknown;
        }
        if let Terminator::Call { callee, .. } = terminator {
            out.sp = out.sp.after_call(&self.facts[callee.0 as usize]);
        }
        out
    }

    fn meet(&self, _block: usize, _effort: Effort, known: &Distances, other: &Distances) -> Distances {
        known.meet(*other)
    }
}

fn distances(function: &Function, moves: &[Moves], facts: &[StackFacts], cfg: &Cfg) -> Vec<Distances> {
    let mut known = vec![None; function.blocks.len()];
    known[0] = Some(Distances::ENTRY);
    let standing = Standing { function, moves, facts };
    let known = dataflow::solve(cfg, Direction::Forward, &standing, known);
    known.into_iter().map(|distances| distances.unwrap_or(Distances::UNVISITED)).collect()
}

/// The value of `sp` after the function, and its change, given `facts` about callees.
fn after(
    function: &Function,
    moves: &[Moves],
    distances: &[Distances],
    facts: &[StackFacts],
) -> (SpAfter, Distance) {
    // Millicode moves `sp` on purpose, and so do leaf functions that move it by a constant.
    let is_leaf = !function.blocks.iter().any(|block| block.terminator.is_call());
    let (mut after, mut moved) = (SpAfter::Same, Distance::Unvisited);
    for ((block, moves), distances) in function.blocks.iter().zip(moves).zip(distances) {
        if *distances == Distances::UNVISITED {
            continue;
        }
        let end = distances.after(moves).sp;
        let (end, callee) = match &block.terminator {
            Terminator::Return { .. } => (end, SpAfter::Same),
            Terminator::JumpIndirect { candidates, .. } if candidates.is_empty() => (end, SpAfter::Same),
            // `limit_tail_calls` allows this tail call, which then restores `sp`.
            Terminator::JumpIndirect { .. } if end == Distance::Known(0) => (end, SpAfter::Same),
            Terminator::TailCall { callee, .. } => {
                let callee = &facts[callee.0 as usize];
                match callee.after {
                    // A tail call does not compare `sp`: this function's callers do.
                    SpAfter::Compared => (Distance::Unknown, SpAfter::Compared),
                    SpAfter::Same | SpAfter::Moved => (end.after_call(callee), SpAfter::Same),
                }
            }
            _ => continue,
        };
        let own = match end {
            Distance::Known(0) | Distance::Unvisited => SpAfter::Same,
            Distance::Known(_) if is_leaf => SpAfter::Moved,
            _ if function.link != Reg::RA => SpAfter::Moved,
            _ => SpAfter::Compared,
        };
        (after, moved) = (after.max(own).max(callee), moved.meet(end));
    }
    (after, moved)
}
