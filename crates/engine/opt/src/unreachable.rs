//! Finds the functions that return, and removes code that is unreachable because others do not.
//!
//! A caller of `abort` does not continue after the call. The code there is often the next function. Without
//! this pass, the caller would seem to read and change everything that the next function does.

use antares_ir::{Block, Cfg, Function, Module, Op, Returns, Terminator, reached, successors};
use antares_program::{BlockId, Reg};

/// Maximum blocks of a function that only ends in a `longjmp`; larger ones do other work.
const LONGJMP_BLOCKS_MAX: usize = 64;

/// Removes code after calls that never return. A function returns if a path through it ends in a return, over
/// calls that return. The least such set is correct by induction over the length of a run. Calls by address
/// count as returning, and so do jumps by address, except through tables.
///
/// If some code calls a `setjmp`, native code can follow the `longjmp`s, so they stay.
pub(crate) fn cut(module: &mut Module) {
    let functions = module.functions.as_mut_slice();
    let can_follow = find_contexts(functions);
    let mut jumps = vec![false; functions.len()];
    for (function, jumps) in functions.iter_mut().zip(&mut jumps) {
        let is_far = function.returns == Returns::Far;
        for block in function.blocks.iter_mut().filter(|_| !is_far) {
            if matches!(block.terminator, Terminator::Return { .. }) && goes_elsewhere(block) {
                empty(block);
                *jumps = !can_follow;
            }
        }
    }
    let reachability = Reachability::of(functions);
    let reaches_longjmp = reachability.reaching_longjmp(functions, &jumps);
    for (function, is_seen) in functions.iter_mut().zip(&reachability.is_seen) {
        let unseen = function.blocks.iter_mut().zip(is_seen).filter(|(_, is_seen)| !**is_seen);
        unseen.for_each(|(block, _)| empty(block));
        for block in &mut function.blocks {
            if block.terminator.callee().is_some_and(|callee| reaches_longjmp[callee.0 as usize]) {
                empty(block);
            }
        }
        for index in 0..is_seen.len() {
            // A block stays if another path leads to it.
            if let Terminator::Call { callee, to } = function.blocks[index].terminator
                && !reachability.returns[callee.0 as usize]
                && is_seen[to.0 as usize]
            {
                let pc = function.blocks[to.0 as usize].pc;
                function.blocks.push(Block::between(pc, Vec::new(), Terminator::Leave));
                let to = BlockId::at(function.blocks.len() - 1);
                function.blocks[index].terminator = Terminator::Call { callee, to };
            }
        }
    }
}

/// Finds functions that save their return context, if called, and functions that restore one. Returns whether
/// some code calls such a save.
fn find_contexts(functions: &mut [Function]) -> bool {
    let [mut saves, mut restores] = [Vec::new(), Vec::new()];
    for (index, function) in functions.iter().enumerate().filter(|(_, function)| function.link == Reg::RA) {
        let returns = |block: &&Block| matches!(&block.terminator, Terminator::Return { locals, .. } if locals.is_empty());
        match function.blocks.as_slice() {
            [block] if returns(&block) && saves_context(block) => saves.push(index),
            [block] if matches!(block.terminator, Terminator::TailCall { .. }) => {}
            blocks if blocks.iter().filter(returns).any(goes_elsewhere) => restores.push(index),
            _ => {}
        }
    }
    let mut callees =
        functions.iter().flat_map(|function| &function.blocks).filter_map(|block| match block.terminator {
            Terminator::Call { callee, .. } => Some(callee.0 as usize),
            _ => None,
        });
    if restores.is_empty() || !callees.any(|callee| saves.contains(&callee)) {
        return false;
    }
    saves.into_iter().for_each(|index| functions[index].returns = Returns::Again);
    restores.into_iter().for_each(|index| functions[index].returns = Returns::Far);
    true
}

/// Whether the block stores `sp` and the return address relative to a register, like `setjmp`.
fn saves_context(block: &Block) -> bool {
    let base = |register: Reg| {
        block.ops.iter().find_map(|op| match *op {
            Op::Store { base, value, .. } if block.read_of(value) == Some(register) => block.read_of(base),
            _ => None,
        })
    };
    let is_kept = [Reg::SP, Reg::RA].iter().all(|register| block.written(*register).is_none());
    is_kept && base(Reg::SP).is_some_and(|register| register != Reg::SP && base(Reg::RA) == Some(register))
}

/// Whether the block loads `sp` and the return address relative to a register, like `longjmp`. It does not
/// return to the caller, which native code does not support.
fn goes_elsewhere(block: &Block) -> bool {
    let base = |register: Reg| match block.op(block.written(register)?) {
        Op::Load { base, .. } => block.read_of(base),
        _ => None,
    };
    base(Reg::SP).is_some_and(|register| register != Reg::SP && base(Reg::RA) == Some(register))
}

/// Turns a block into one that only bails out.
fn empty(block: &mut Block) {
    *block = Block::between(block.pc, Vec::new(), Terminator::Leave);
}

struct Reachability {
    returns: Vec<bool>,
    is_seen: Vec<Vec<bool>>,
    /// By function: the blocks (with their functions) that are reachable if it returns.
    waiting: Vec<Vec<(usize, usize)>>,
    /// By function: those that return if it does.
    tails: Vec<Vec<usize>>,
    /// Reached blocks to visit.
    work: Vec<(usize, usize)>,
}

impl Reachability {
    fn of(functions: &[Function]) -> Self {
        let count = functions.len();
        let mut reachability = Self {
            returns: vec![false; count],
            is_seen: functions.iter().map(|function| vec![false; function.blocks.len()]).collect(),
            waiting: vec![Vec::new(); count],
            tails: vec![Vec::new(); count],
            work: Vec::new(),
        };
        for index in 0..count {
            reachability.reach(index, 0);
        }
        while let Some((function, block)) = reachability.work.pop() {
            let is_far = functions[function].returns == Returns::Far;
            reachability.visit((function, is_far), &functions[function].blocks[block]);
        }
        reachability
    }

    fn reach(&mut self, function: usize, block: usize) {
        if !std::mem::replace(&mut self.is_seen[function][block], true) {
            self.work.push((function, block));
        }
    }

    fn visit(&mut self, (function, is_far): (usize, bool), block: &Block) {
        match &block.terminator {
            Terminator::Call { callee, to } if !self.returns[callee.0 as usize] => {
                self.waiting[callee.0 as usize].push((function, to.0 as usize));
                return;
            }
            Terminator::TailCall { callee, .. } if !self.returns[callee.0 as usize] => {
                self.tails[callee.0 as usize].push(function);
            }
            Terminator::Return { .. } if is_far && goes_elsewhere(block) => {}
            Terminator::TailCall { .. } | Terminator::Return { .. } => self.returns(function),
            other if other.is_indirect_tail_call() => self.returns(function),
            _ => {}
        }
        for to in block.terminator.successors() {
            self.reach(function, to.0 as usize);
        }
    }

    /// The functions whose purpose is to end in a `longjmp`: `jumps`, and their callers that never return.
    /// Native code must bail out there, so it bails out at their call sites instead. Otherwise they would
    /// read registers that their callers need not set, above all with variable arguments.
    fn reaching_longjmp(&self, functions: &[Function], jumps: &[bool]) -> Vec<bool> {
        let mut callers: Vec<Vec<usize>> = vec![Vec::new(); functions.len()];
        for (caller, function) in functions.iter().enumerate() {
            if !self.returns[caller] && !self.works(function, &self.is_seen[caller]) {
                let seen = function.blocks.iter().zip(&self.is_seen[caller]).filter(|(_, is_seen)| **is_seen);
                seen.filter_map(|(block, _)| block.terminator.callee())
                    .for_each(|callee| callers[callee.0 as usize].push(caller));
            }
        }
        reached(&callers, (0..functions.len()).filter(|function| jumps[*function]).collect())
    }

    /// Whether a function that never returns does other work, like a main loop: it ends the script, or makes
    /// calls in a loop.
    fn works(&self, function: &Function, is_seen: &[bool]) -> bool {
        if function.blocks.len() > LONGJMP_BLOCKS_MAX {
            return true;
        }
        let ends = |terminator: &Terminator| {
            terminator.callee().is_some_and(|callee| !self.returns[callee.0 as usize])
        };
        let following = |block: &Block| match ends(&block.terminator) {
            true => Vec::new(),
            false => successors(&block.terminator),
        };
        let cfg = Cfg::new(function.blocks.iter().map(following).collect());
        let seen = function.blocks.iter().enumerate().filter(|(index, _)| is_seen[*index]);
        seen.into_iter().any(|(index, block)| match block.terminator {
            Terminator::Exit { .. } => true,
            Terminator::Call { .. } | Terminator::CallIndirect { .. } | Terminator::Ecall { .. } => {
                cfg.reaches(index, index)
            }
            _ => false,
        })
    }

    fn returns(&mut self, function: usize) {
        let mut found = vec![function];
        while let Some(function) = found.pop() {
            if std::mem::replace(&mut self.returns[function], true) {
                continue;
            }
            for (caller, to) in std::mem::take(&mut self.waiting[function]) {
                self.reach(caller, to);
            }
            found.append(&mut self.tails[function]);
        }
    }
}
