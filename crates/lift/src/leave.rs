//! Where a script may go on without native code: all guest registers are at hand there.
//!
//! Two things end native code in the middle of a script that runs well. A syscall of VM version 2 may stop the VM for
//! others to run, and the VM may come back in another process image, with registers and memory alone; and code may be
//! loaded while the script runs ([`LOAD_CODE`]), and be called. There, everything counts as read. Other events are
//! rare, and the script starts again for them.
//!
//! What is recognised decides about speed alone: native code that is left elsewhere makes the script start again.

use antares_ir::{Module, Op, Terminator};
use antares_program::{Reg, RegSet};

use crate::function::FunctionDraft;

/// Syscalls that may stop the VM: exec, and spawn to close (ckb-script's `syscalls/mod.rs`).
const STOPPING: [i64; 9] = [2043, 2601, 2602, 2603, 2604, 2605, 2606, 2607, 2608];

/// The syscall that makes memory executable.
const LOAD_CODE: i64 = 2091;

/// First VM version in which a script may go on in the interpreter. In earlier ones what the interpreter does depends on
/// which code it ran before (ckb-vm issue 425).
const VERSION_MIN: u32 = 2;

/// What a program does beside computing, as far as its constants tell.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Habits {
    stops: bool,
    pub(crate) loads_code: bool,
}

impl Habits {
    /// Whether addresses without code are left for with all registers.
    pub(crate) fn are_open(self, vm_version: u32) -> bool {
        self.loads_code && vm_version >= VERSION_MIN
    }
}

/// Looks for the numbers of the syscalls in question.
pub(crate) fn habits(functions: &[FunctionDraft], vm_version: u32) -> Habits {
    let blocks = functions.iter().flat_map(|function| &function.blocks);
    let numbers = blocks.flat_map(|block| block.builder.ops.iter()).filter_map(|op| match *op {
        Op::Const(number) => Some(number),
        _ => None,
    });
    let is_late = vm_version >= VERSION_MIN;
    numbers.fold(Habits::default(), |habits, number| Habits {
        stops: habits.stops || (is_late && STOPPING.contains(&number)),
        loads_code: habits.loads_code || number == LOAD_CODE,
    })
}

/// Lets the syscalls that may stop the VM read all registers.
pub(crate) fn widen_syscalls(functions: &mut [FunctionDraft], habits: Habits) {
    if !habits.stops {
        return;
    }
    for block in functions.iter_mut().flat_map(|function| &mut function.blocks) {
        let number = block.builder.known(Reg::A7);
        if let Terminator::Ecall { uses, .. } = &mut block.terminator
            && number.is_none_or(|number| STOPPING.contains(&number))
        {
            *uses = RegSet::ALL;
        }
    }
}

/// Marks the functions that the host may enter after a script went on without native code: those that are called by
/// functions in which that may happen, and all that can be found by their address.
///
/// What has an entry for the host can be found by its address too, by whatever computes it: so all of these count as exposed. What
/// returns through another register than `ra` has none.
pub(crate) fn mark_resumable(module: &mut Module) {
    let mut has_changed = true;
    while has_changed {
        let leaves = leavers(module);
        if !leaves.contains(&true) {
            return;
        }
        let mut is_resumable: Vec<bool> =
            module.functions.iter().map(|function| function.is_exposed).collect();
        for (function, _) in module.functions.iter().zip(&leaves).filter(|(_, leaves)| **leaves) {
            for block in &function.blocks {
                if let Terminator::Call { callee, .. } | Terminator::TailCall { callee, .. } =
                    block.terminator
                {
                    let is_found = module.functions[callee.0 as usize].link == Reg::RA;
                    is_resumable[callee.0 as usize] |= is_found;
                }
            }
        }
        has_changed = false;
        for (function, is_resumable) in module.functions.iter_mut().zip(is_resumable) {
            has_changed |= is_resumable && !function.is_exposed;
            function.is_resumable = is_resumable;
            function.is_exposed |= is_resumable;
        }
    }
}

/// By function: whether native code may be left in it, or in what it calls, with all registers.
fn leavers(module: &Module) -> Vec<bool> {
    let is_dispatch = |terminator: &Terminator| match terminator {
        Terminator::CallIndirect { .. } => true,
        Terminator::JumpIndirect { may_call, .. } => *may_call,
        _ => false,
    };
    let mut leaves = vec![false; module.functions.len()];
    let mut exposed_leaves = module.is_open;
    let mut has_changed = true;
    while has_changed {
        has_changed = false;
        for (index, function) in module.functions.iter().enumerate() {
            let now = function.blocks.iter().any(|block| match &block.terminator {
                Terminator::Ecall { uses, .. } => *uses == RegSet::ALL,
                Terminator::Call { callee, .. } | Terminator::TailCall { callee, .. } => {
                    leaves[callee.0 as usize]
                }
                other => is_dispatch(other) && exposed_leaves,
            });
            if now && !leaves[index] {
                leaves[index] = true;
                exposed_leaves |= function.is_exposed;
                has_changed = true;
            }
        }
    }
    leaves
}
