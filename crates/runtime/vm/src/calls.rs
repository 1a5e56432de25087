//! The active calls of a VM, reconstructed from its jumps.

use std::collections::HashSet;

use crate::{
    limits::RECORDED_CALLS_MAX,
    recording::{ROOT, Recording, StackLocation, T0},
};

/// A call that has not returned.
#[derive(Clone, Copy, Debug)]
struct Call {
    /// Address of the calling instruction.
    site: u64,
    return_pc: u64,
    /// The stack pointer of the caller.
    sp: u64,
    /// Whether the link register is `t0`: a compiler helper, which may move the stack pointer.
    is_helper: bool,
    /// The context of the caller.
    context: u32,
}

/// The call stack of one VM. It never affects cycle counts: wrong guesses only attribute cycles to another
/// context.
#[derive(Debug)]
pub(crate) struct Calls {
    calls: Vec<Call>,
    /// Return addresses of calls.
    return_pcs: HashSet<u64>,
    /// The context of the code that runs now.
    pub(crate) context: u32,
    pub(crate) program: u32,
    /// The context of the system call that the VM waits in.
    pub(crate) waiting: Option<u32>,
    /// Distinguishes a VM from the one that it replaced.
    pub(crate) generation: u32,
}

impl Calls {
    pub(crate) fn new(context: u32, program: u32, generation: u32) -> Self {
        Self { calls: Vec::new(), return_pcs: HashSet::new(), context, program, waiting: None, generation }
    }

    /// Records a call at `site`.
    pub(crate) fn call(
        &mut self,
        recording: &mut Recording,
        site: u64,
        return_pc: u64,
        link: usize,
        sp: u64,
    ) {
        if self.calls.len() >= RECORDED_CALLS_MAX {
            return;
        }
        self.calls.push(Call { site, return_pc, sp, is_helper: link == T0, context: self.context });
        let (context, is_new) =
            recording.context(self.context, StackLocation::Code { program: self.program, pc: site });
        if is_new {
            self.return_pcs.insert(return_pc);
        }
        self.context = context;
    }

    pub(crate) fn depth(&self) -> usize {
        self.calls.len()
    }

    /// The call sites, outermost first.
    pub(crate) fn sites(&self) -> impl Iterator<Item = u64> {
        self.calls.iter().map(|call| call.site)
    }

    /// The context below the first call.
    pub(crate) fn bottom(&self) -> u32 {
        self.calls.first().map_or(self.context, |call| call.context)
    }

    /// Records a jump to a register address. It is a return if an active call expects this address and stack
    /// pointer. Otherwise it is a jump within a function, a tail call, or a `longjmp`, which ends all calls
    /// further down the stack.
    pub(crate) fn jump(&mut self, target: u64, sp: u64) {
        if let Some(top) = self.calls.last()
            && top.return_pc == target
            && (top.sp == sp || top.is_helper)
        {
            return self.return_from(self.calls.len() - 1);
        }
        // Stack pointers only grow towards the first call, so a matching call is near the top.
        let near = self.calls.iter().rev().take_while(|call| call.sp <= sp);
        let is_it = |call: &Call| call.return_pc == target && call.sp == sp;
        if let Some(above) = near.clone().position(is_it) {
            return self.return_from(self.calls.len() - 1 - above);
        }
        // A known return address without a matching call: the call returned before, so its caller resumes,
        // and the calls above are dead.
        let is_behind_call = self.return_pcs.contains(&target);
        let dead = near.take_while(|call| call.sp < sp || is_behind_call).count();
        if dead > 0 {
            self.return_from(self.calls.len() - dead);
        }
    }

    fn return_from(&mut self, index: usize) {
        self.context = self.calls[index].context;
        self.calls.truncate(index);
    }

    /// The context of system call `number` at `pc`.
    pub(crate) fn syscall(&self, recording: &mut Recording, pc: u64, number: u64) -> u32 {
        let (site, _) = recording.context(self.context, StackLocation::Code { program: self.program, pc });
        recording.context(site, StackLocation::Syscall(number)).0
    }

    /// Attributes the cycles that a VM has before it runs: the cost of loading it, or of the system call that
    /// it waited in.
    pub(crate) fn begin(&mut self, recording: &mut Recording, cycles: u64) {
        let waiting = self.waiting.take();
        if cycles > 0 {
            let context = waiting.unwrap_or_else(|| recording.context(self.context, StackLocation::Load).0);
            recording.spend(context, cycles);
        }
    }

    /// Replaces the program of this VM.
    pub(crate) fn replace(&mut self, context: u32, program: u32) {
        *self = Self::new(context, program, self.generation);
    }
}

/// The context on top of the system call that `calls` waits in, or on top of the root.
pub(crate) fn above(recording: &mut Recording, calls: Option<&Calls>, place: StackLocation) -> u32 {
    let waiting = calls.and_then(|calls| calls.waiting);
    // The caller is the `ecall` instruction, not the syscall: the cost of the syscall itself stays separate.
    let site = waiting.map_or(ROOT, |context| recording.contexts()[context as usize].parent);
    recording.context(site, place).0
}

#[cfg(test)]
mod tests {
    use super::*;

    const RA: usize = 1;

    fn started() -> (Calls, Recording) {
        (Calls::new(ROOT, 0, 0), Recording::default())
    }

    #[test]
    fn returns_are_matched_by_address_and_stack_pointer() {
        let (mut calls, mut recording) = started();
        calls.call(&mut recording, 0x100, 0x104, RA, 1000);
        let outer = calls.context;
        calls.call(&mut recording, 0x200, 0x204, RA, 900);
        let inner = calls.context;
        // A jump table in a function without a frame.
        calls.jump(0x300, 900);
        assert_eq!(calls.context, inner);
        calls.jump(0x204, 900);
        assert_eq!(calls.context, outer);
        calls.jump(0x104, 1000);
        assert_eq!(calls.context, ROOT);
    }

    #[test]
    fn recursion_returns_to_its_own_level() {
        let (mut calls, mut recording) = started();
        let mut contexts = Vec::new();
        for level in 0..5 {
            contexts.push(calls.context);
            calls.call(&mut recording, 0x100, 0x104, RA, 1000 - 16 * level);
        }
        for level in (0..5).rev() {
            calls.jump(0x104, 1000 - 16 * level);
            assert_eq!(Some(calls.context), contexts.pop());
        }
    }

    #[test]
    fn a_tail_call_returns_for_its_caller() {
        let (mut calls, mut recording) = started();
        calls.call(&mut recording, 0x100, 0x104, RA, 1000);
        let callee = calls.context;
        // The callee tail-calls another function, which returns to the first caller.
        calls.jump(0x400, 1000);
        assert_eq!(calls.context, callee);
        calls.jump(0x104, 1000);
        assert_eq!(calls.context, ROOT);
    }

    #[test]
    fn helpers_may_move_the_stack_pointer() {
        let (mut calls, mut recording) = started();
        calls.call(&mut recording, 0x100, 0x104, T0, 1000);
        calls.jump(0x104, 936);
        assert_eq!(calls.context, ROOT);
    }

    #[test]
    fn a_long_jump_leaves_everything_it_jumps_over() {
        let (mut calls, mut recording) = started();
        calls.call(&mut recording, 0x100, 0x104, RA, 1000);
        let setter = calls.context;
        // setjmp, which returns.
        calls.call(&mut recording, 0x200, 0x204, RA, 900);
        calls.jump(0x204, 900);
        // Two calls further down, and then back to the setjmp return address.
        calls.call(&mut recording, 0x210, 0x214, RA, 900);
        calls.call(&mut recording, 0x300, 0x304, RA, 800);
        calls.jump(0x204, 900);
        assert_eq!(calls.context, setter);
        calls.jump(0x104, 1000);
        assert_eq!(calls.context, ROOT);
    }

    #[test]
    fn endless_calls_are_bounded() {
        let (mut calls, mut recording) = started();
        for _ in 0..2 * RECORDED_CALLS_MAX {
            calls.call(&mut recording, 0x100, 0x104, RA, 1000);
        }
        assert_eq!(calls.calls.len(), RECORDED_CALLS_MAX);
        assert!(recording.contexts().len() <= usize::from(crate::limits::RECORDED_DEPTH_MAX) + 1);
    }
}
