//! Stack frames: how far `sp` is from where the function found it, wherever a block begins, so that an access
//! of the frame, which was checked at the entry, is known to be one.
//!
//! A function returns after its callees have, so what follows from all that they do is true by induction over
//! the length of a run. Callers compare `sp` behind a function that may have moved it
//! ([`SpAfter::Compared`]), and behind calls by address.

use antares_ir::{Function, Module, SpAfter, Terminator, dataflow::Worklist};
use antares_program::Reg;

use crate::available::{Executed, Root};

/// How far something is from where `sp` was at the function's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpDistance {
    /// Nothing leads here, as far as is known.
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

/// `sp`, and `s0`, which holds it in frames of no fixed size.
type Pointers = [SpDistance; 2];

/// What is known of a function.
pub(super) struct StackFrame {
    /// By block, as it is entered: `sp` and `s0`.
    pointers: Vec<Pointers>,
    /// `sp` where the function returns.
    returned: SpDistance,
}

impl StackFrame {
    /// Where `sp` is as a block is entered; none if no path leads there.
    pub(super) fn sp(&self, block: usize) -> SpDistance {
        self.pointers[block][0]
    }

    /// Whether `sp` is where it was wherever the function returns.
    pub(super) fn gives_back(&self) -> bool {
        matches!(self.returned, SpDistance::Is(0) | SpDistance::Unreached)
    }
}

/// Finds out about all functions; `executed` has the blocks of each.
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
    // Behind a callee that starts there.
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
            // What the callee has done with `s0` is not known.
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
