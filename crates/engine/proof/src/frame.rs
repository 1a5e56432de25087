//! Stack frames: the distance of `sp` at each block from its value at function entry. Accesses to the frame,
//! which the entry checks, are recognized by it.
//!
//! A function returns after its callees, so facts about callees hold by induction over the length of a run.
//! Callers compare `sp` after calls by address, and after functions that may have moved it
//! ([`SpAfter::Compared`]).

use antares_ir::{Function, Module, SpAfter, Terminator, dataflow::Worklist};
use antares_program::Reg;

use crate::available::{Executed, Root};

/// The distance of a value from `sp` at function entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpDistance {
    /// Unreachable, as far as is known.
    Unreached,
    Is(i64),
    Unknown,
}

impl SpDistance {
    fn plus(self, by: i64) -> Self {
        match self {
            Self::Is(distance) => distance.checked_add(by).map_or(Self::Unknown, Self::Is),
            other => other,
        }
    }

    fn meet(self, other: Self) -> Self {
        match (self, other) {
            (Self::Unreached, distance) | (distance, Self::Unreached) => distance,
            (a, b) if a == b => a,
            _ => Self::Unknown,
        }
    }
}

/// `sp`, and `s0`, which holds it in frames without a fixed size.
type Pointers = [SpDistance; 2];

/// The stack pointers of a function.
pub(super) struct StackFrame {
    /// By block, at entry: `sp` and `s0`.
    pointers: Vec<Pointers>,
    /// `sp` at returns.
    returned: SpDistance,
}

impl StackFrame {
    /// `sp` at block entry.
    pub(super) fn sp(&self, block: usize) -> SpDistance {
        self.pointers[block][0]
    }

    /// Whether the function restores `sp` at all returns.
    pub(super) fn gives_back(&self) -> bool {
        matches!(self.returned, SpDistance::Is(0) | SpDistance::Unreached)
    }
}

/// Solves all functions; `executed` holds the blocks of each.
pub(super) fn solve(module: &Module, executed: &[Vec<Executed>]) -> Vec<StackFrame> {
    let frame = |_: &Function| StackFrame { pointers: Vec::new(), returned: SpDistance::Unreached };
    let mut frames: Vec<StackFrame> = module.functions.iter().map(frame).collect();
    let callers = module.callers();
    let mut queue = Worklist::of(0..frames.len());
    while let Some(index) = queue.pop() {
        let solved = solve_one(module, &module.functions[index], &executed[index], &frames);
        let returned = frames[index].returned.meet(solved.returned);
        let is_new = returned != frames[index].returned;
        frames[index] = StackFrame { returned, ..solved };
        if is_new {
            queue.add(&callers[index]);
        }
    }
    frames
}

fn solve_one(
    module: &Module,
    function: &Function,
    executed: &[Executed],
    frames: &[StackFrame],
) -> StackFrame {
    // `sp` after a callee that starts at `sp`.
    let behind =
        |sp: SpDistance, callee: usize| match (frames[callee].returned, module.functions[callee].sp_after) {
            (SpDistance::Unreached, _) => SpDistance::Unreached,
            (_, SpAfter::Same | SpAfter::Compared) => sp,
            (SpDistance::Is(by), SpAfter::Moved) => sp.plus(by),
            (SpDistance::Unknown, SpAfter::Moved) => SpDistance::Unknown,
        };
    let mut pointers = vec![[SpDistance::Unreached; 2]; function.blocks.len()];
    pointers[0] = [SpDistance::Is(0), SpDistance::Unknown];
    let mut returned = SpDistance::Unreached;
    let mut open = vec![0];
    let end = |[sp, frame]: Pointers, executed: &Executed| -> Pointers {
        [Reg::SP, Reg::S0].map(|register| match executed.root_of(register) {
            (Root::Register(Reg::SP), by) => sp.plus(by),
            (Root::Register(Reg::S0), by) => frame.plus(by),
            _ => SpDistance::Unknown,
        })
    };
    while let Some(index) = open.pop() {
        let terminator = &function.blocks[index].terminator;
        let mut after = end(pointers[index], &executed[index]);
        if terminator.is_call() {
            // The callee may have changed `s0`.
            after[1] = SpDistance::Unknown;
        }
        if let Terminator::Call { callee, .. } = terminator {
            after[0] = behind(after[0], callee.0 as usize);
        }
        if after[0] == SpDistance::Unreached {
            continue;
        }
        for next in terminator.successors() {
            let known = &mut pointers[next.0 as usize];
            let met = [0, 1].map(|pointer| known[pointer].meet(after[pointer]));
            if *known != met {
                *known = met;
                open.push(next.0 as usize);
            }
        }
    }
    for (index, block) in function.blocks.iter().enumerate() {
        let [sp, _] = end(pointers[index], &executed[index]);
        returned = returned.meet(match &block.terminator {
            _ if sp == SpDistance::Unreached => SpDistance::Unreached,
            Terminator::Return { .. } | Terminator::JumpIndirect { may_call: true, .. } => sp,
            Terminator::TailCall { callee, .. } => match module.functions[callee.0 as usize].sp_after {
                SpAfter::Compared => SpDistance::Unknown,
                _ => behind(sp, callee.0 as usize),
            },
            _ => SpDistance::Unreached,
        });
    }
    StackFrame { pointers, returned }
}
