//! Signatures: the registers that a function takes and those that it returns.
//!
//! * *changes*: registers that a function or its callees may write, except its link register (checked at the
//!   return) and a restored `sp`. Empty if the function never returns, since no code reads them then.
//! * *wanted*: registers that some caller may read after a call.
//! * *far*: registers that may be read after a call that returns again. The code that returns there passes
//!   them on.
//! * Results are the changed and wanted registers; params are the registers live at the entry.
//!
//! The host wants all registers of a function that it may enter in the middle of a run. Code that is loaded
//! at run time may read and change all registers.

use antares_ir::{
    Cfg, Function, Module, Returns, SpAfter, Terminator,
    dataflow::{self, Direction, Effort, Problem, Worklist},
};
use antares_program::{Reg, RegSet};

/// Computes the params and results of every function.
pub(crate) fn sign(module: &mut Module) {
    let mut analysis = Analysis::new(module);
    analysis.find_changes(module);
    analysis.find_live(module);
    module.indirect_params = analysis.indirect_params;
    module.indirect_changes = analysis.indirect_changes;
    for (index, function) in module.functions.iter_mut().enumerate() {
        function.params = analysis.params[index];
        function.results = analysis.results(index);
        for block in &mut function.blocks {
            if let Terminator::CallIndirect { live, to, .. } = &mut block.terminator {
                *live = analysis.live_in[index][to.0 as usize];
            }
        }
    }
}

/// Whether a caller continues after this terminator.
fn returns(terminator: &Terminator) -> bool {
    matches!(terminator, Terminator::Return { .. } | Terminator::TailCall { .. })
        || terminator.is_indirect_tail_call()
}

/// Liveness inside the function `index`.
struct Liveness<'a> {
    analysis: &'a Analysis,
    function: &'a Function,
    index: usize,
}

impl Problem for Liveness<'_> {
    type Fact = RegSet;

    fn transfer(&self, block: usize, after: &RegSet) -> RegSet {
        let block = &self.function.blocks[block];
        let live = self.analysis.live_at_end(&block.terminator, self.index, *after);
        let live = block.writes.iter().fold(live, |live, (register, _)| live.without(*register));
        block.reads().fold(live, RegSet::with)
    }

    fn meet(&self, _block: usize, _effort: Effort, known: &RegSet, other: &RegSet) -> RegSet {
        known.or(*other)
    }
}

struct Analysis {
    sp_after: Vec<SpAfter>,
    /// By function: whether it returns again, to callers with the same `sp`.
    is_again: Vec<bool>,
    callers: Vec<Vec<usize>>,
    exposed: Vec<usize>,
    /// Functions that call or tail-call indirectly.
    dispatchers: Vec<usize>,
    changes: Vec<RegSet>,
    wanted: Vec<RegSet>,
    params: Vec<RegSet>,
    cfgs: Vec<Cfg>,
    live_in: Vec<Vec<RegSet>>,
    /// By function and block: registers live at the end.
    live_out: Vec<Vec<RegSet>>,
    indirect_changes: RegSet,
    indirect_params: RegSet,
    indirect_wanted: RegSet,
    /// Functions that return far, and the registers that may be read after that.
    far: Vec<usize>,
    far_wanted: RegSet,
}

impl Analysis {
    fn new(module: &Module) -> Self {
        let count = module.functions.len();
        let calls = |index: &usize| {
            module.functions[*index].blocks.iter().any(|block| block.terminator.calls_by_address())
        };
        let exposed = (0..count).filter(|index| module.functions[*index].is_exposed).collect();
        let indirect = if module.is_open { RegSet::ALL } else { RegSet::EMPTY };
        let none_live = || module.functions.iter().map(|f| vec![RegSet::EMPTY; f.blocks.len()]).collect();
        let wanted = |function: &Function| if function.is_resumable { RegSet::ALL } else { RegSet::EMPTY };
        Self {
            sp_after: module.functions.iter().map(|function| function.sp_after).collect(),
            is_again: module.functions.iter().map(|function| function.returns == Returns::Again).collect(),
            callers: module.callers(),
            exposed,
            dispatchers: (0..count).filter(calls).collect(),
            changes: vec![RegSet::EMPTY; count],
            wanted: module.functions.iter().map(wanted).collect(),
            params: vec![RegSet::EMPTY; count],
            cfgs: module.functions.iter().map(|function| Cfg::of(&function.blocks)).collect(),
            live_in: none_live(),
            live_out: none_live(),
            indirect_changes: indirect,
            indirect_params: indirect,
            indirect_wanted: RegSet::EMPTY,
            far: (0..count).filter(|index| module.functions[*index].returns == Returns::Far).collect(),
            far_wanted: RegSet::EMPTY,
        }
    }

    fn results(&self, index: usize) -> RegSet {
        self.changes[index].and(self.wanted[index])
    }

    fn find_changes(&mut self, module: &Module) {
        let mut queue = Worklist::of((0..module.functions.len()).rev());
        while let Some(index) = queue.pop() {
            let changes = self.changes_of(&module.functions[index], index);
            if changes == self.changes[index] {
                continue;
            }
            self.changes[index] = changes;
            queue.add(&self.callers[index]);
            if module.functions[index].is_exposed {
                self.indirect_changes = self.indirect_changes.or(changes);
                queue.add(&self.dispatchers);
            }
        }
    }

    fn changes_of(&self, function: &Function, index: usize) -> RegSet {
        let mut changes = RegSet::EMPTY;
        if !function.blocks.iter().any(|block| returns(&block.terminator)) {
            return changes;
        }
        for block in &function.blocks {
            changes = block.writes.iter().fold(changes, |set, (register, _)| set.with(*register));
            changes = changes.or(match &block.terminator {
                Terminator::Call { callee, .. } | Terminator::TailCall { callee, .. } => {
                    self.changes[callee.0 as usize]
                }
                Terminator::Ecall { .. } => RegSet::of(&[Reg::A0]),
                other if other.calls_by_address() => self.indirect_changes.without(Reg::SP),
                _ => RegSet::EMPTY,
            });
        }
        if function.returns != Returns::Once {
            changes = RegSet::ALL;
        }
        let changes = changes.without(function.link);
        if self.sp_after[index] == SpAfter::Same { changes.without(Reg::SP) } else { changes }
    }

    fn find_live(&mut self, module: &Module) {
        for (wanted, sp_after) in self.wanted.iter_mut().zip(&self.sp_after) {
            if *sp_after != SpAfter::Same {
                // The caller compares sp after most calls, so it needs the real one.
                *wanted = wanted.with(Reg::SP);
            }
        }
        let mut queue = Worklist::of((0..module.functions.len()).rev());
        while let Some(index) = queue.pop() {
            let function = &module.functions[index];
            self.solve(function, index);
            let params = self.params_of(function, index);
            if params != self.params[index] {
                self.params[index] = params;
                queue.add(&self.callers[index]);
                if function.is_exposed && params.minus(self.indirect_params) != RegSet::EMPTY {
                    self.indirect_params = self.indirect_params.or(params);
                    queue.add(&self.dispatchers);
                }
            }
            self.propagate_to_callees(module, index, &mut queue);
        }
    }

    /// Computes liveness inside one function. Live sets only grow.
    fn solve(&mut self, function: &Function, index: usize) {
        let live = std::mem::take(&mut self.live_out[index]).into_iter().map(Some).collect();
        let liveness = Liveness { analysis: self, function, index };
        let live = dataflow::solve(&self.cfgs[index], Direction::Backward, &liveness, live);
        let live: Vec<RegSet> = live.into_iter().map(Option::unwrap_or_default).collect();
        let before = live.iter().enumerate().map(|(block, live)| liveness.transfer(block, live)).collect();
        (self.live_in[index], self.live_out[index]) = (before, live);
    }

    /// Registers that the terminator or later code may read, if the successors may read `after`.
    fn live_at_end(&self, terminator: &Terminator, index: usize, after: RegSet) -> RegSet {
        match terminator {
            Terminator::Call { callee, .. } => {
                let callee = callee.0 as usize;
                let live = after.minus(self.changes[callee]).or(self.params[callee]);
                let reads_sp = self.sp_after[callee] == SpAfter::Compared || self.is_again[callee];
                if reads_sp { live.with(Reg::SP) } else { live }
            }
            Terminator::TailCall { callee, .. } => {
                let callee = callee.0 as usize;
                self.results(index).minus(self.changes[callee]).or(self.params[callee])
            }
            Terminator::CallIndirect { .. } => after.or(self.indirect_params).with(Reg::SP),
            Terminator::Ecall { uses, .. } => after.without(Reg::A0).or(*uses),
            Terminator::Exit { .. } => RegSet::of(&[Reg::A0, Reg::A7]),
            Terminator::JumpIndirect { may_call: true, .. } => {
                after.or(self.results(index)).or(self.indirect_params).with(Reg::SP)
            }
            Terminator::Return { .. } => after.or(self.results(index)),
            Terminator::Leave
            | Terminator::Jump(_)
            | Terminator::Branch { .. }
            | Terminator::JumpIndirect { .. } => after,
        }
    }

    fn params_of(&self, function: &Function, index: usize) -> RegSet {
        let mut params = self.live_in[index][0];
        if function.compares_link() {
            params = params.with(function.link);
        }
        if function.frame_low.is_some() { params.with(Reg::SP) } else { params }
    }

    /// Propagates wanted registers to callees.
    fn propagate_to_callees(&mut self, module: &Module, index: usize, queue: &mut Worklist) {
        let function = &module.functions[index];
        let mut indirect = RegSet::EMPTY;
        for block in &function.blocks {
            match &block.terminator {
                Terminator::Call { callee, to } => {
                    let live = self.live_in[index][to.0 as usize];
                    self.want(callee.0 as usize, live, queue);
                    if module.functions[callee.0 as usize].returns == Returns::Again {
                        self.far_wanted = self.far_wanted.or(live);
                        for far in self.far.clone() {
                            self.want(far, self.far_wanted, queue);
                        }
                    }
                }
                Terminator::TailCall { callee, .. } => {
                    self.want(callee.0 as usize, self.wanted[index], queue)
                }
                Terminator::CallIndirect { to, .. } => {
                    indirect = indirect.or(self.live_in[index][to.0 as usize])
                }
                other if other.is_indirect_tail_call() => indirect = indirect.or(self.wanted[index]),
                _ => {}
            }
        }
        if indirect.minus(self.indirect_wanted) != RegSet::EMPTY {
            self.indirect_wanted = self.indirect_wanted.or(indirect);
            for exposed in self.exposed.clone() {
                self.want(exposed, self.indirect_wanted, queue);
            }
        }
    }

    fn want(&mut self, callee: usize, registers: RegSet, queue: &mut Worklist) {
        let results = self.results(callee);
        self.wanted[callee] = self.wanted[callee].or(registers);
        if self.results(callee) != results {
            queue.add(&[callee]);
        }
    }
}
