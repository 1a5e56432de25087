//! Emits block terminators: jumps, calls, returns, syscalls.

use antares_abi::BailoutReason;
use antares_ir::{SpAfter, Terminator, Value};
use antares_program::{BlockId, FunctionId, GuestAddr, Reg};

use crate::{
    assembler::{Alu, Cond, Gpr, Label, Mem, Shift},
    block::branch_comparison,
    fitted::fitted,
    function::FunctionEmitter,
    values::Frame,
};

/// Maximum addresses to compare one after another.
const CHAIN_MAX: usize = 4;
/// Maximum entries of a jump table per address in it.
const TABLE_ENTRIES_PER_ADDRESS: u64 = 8;

impl FunctionEmitter<'_, '_> {
    /// Moves the block's final values to their locations and ends the block.
    pub(crate) fn terminator(&mut self) {
        match &self.block().terminator {
            Terminator::Jump(to) => {
                self.values.finish(self.code);
                self.go_on(*to);
            }
            Terminator::Branch { condition, taken, otherwise } => {
                self.branch(*condition, *taken, *otherwise);
            }
            Terminator::Call { callee, to } => {
                self.values.finish(self.code);
                self.count_promoted(*callee);
                if self.context.module.returns_again(*callee) {
                    self.mark(*to);
                }
                let function = self.context.functions[callee.0 as usize];
                match self.context.module.functions[callee.0 as usize].sp_after {
                    SpAfter::Compared => self.call_and_compare(function),
                    SpAfter::Same | SpAfter::Moved => self.code.asm.call(function),
                }
                self.go_on(*to);
            }
            Terminator::TailCall { callee, link } => {
                self.count_promoted(*callee);
                self.tail_call(*callee, *link);
            }
            Terminator::CallIndirect { target, to, .. } => {
                self.hold_target(*target);
                self.values.finish(self.code);
                self.count_jump();
                self.call_indirect();
                self.go_on(*to);
            }
            Terminator::JumpIndirect { target, candidates, may_call, link, .. } => {
                let link = link.filter(|_| *may_call).map(|link| self.hold_link(link));
                self.hold_target(*target);
                self.values.finish(self.code);
                self.count_jump();
                self.switch(candidates);
                if !may_call {
                    return self.code.asm.jump(self.context.stubs.past_table);
                }
                self.call_indirect();
                self.return_if_own(link);
            }
            Terminator::Return { link, locals } => self.finish_return(*link, locals),
            Terminator::Ecall { pc, to, .. } => {
                self.values.finish(self.code);
                self.syscall(*pc);
                self.go_on(*to);
            }
            Terminator::Exit { pc } => {
                self.values.finish(self.code);
                self.syscall(*pc);
                // The host never resumes after an exit.
                self.bail_out(BailoutReason::Unsupported);
            }
            Terminator::Leave => self.bail_out(BailoutReason::Unsupported),
        }
    }

    fn branch(&mut self, condition: Value, taken: BlockId, otherwise: BlockId) {
        if let Some(number) = self.values.number(condition) {
            self.values.finish(self.code);
            let (to, other) = if number == 0 { (otherwise, taken) } else { (taken, otherwise) };
            if let Some(counter) = self.branch_counter(to, other) {
                self.code.asm.count_at(counter);
            }
            return self.go_on(to);
        }
        let cond = match branch_comparison(self.block()).filter(|_| self.values.is_deferred) {
            Some((_, op, a, b)) => self.compare(op, a, b),
            None => {
                let register = self.register(condition);
                self.code.asm.test(register, register);
                self.values.release(condition);
                Cond::NOT_EQUAL
            }
        };
        self.values.unlock(self.code);
        // Moves do not change the flags.
        self.values.finish(self.code);
        let (cond, near, far) = match taken.0 as usize == self.index + 1 {
            true => (cond.inverted(), taken, otherwise),
            false => (cond, otherwise, taken),
        };
        let to = self.counted_target(far, near);
        self.code.asm.jump_if(cond, to);
        if let Some(counter) = self.branch_counter(near, far) {
            self.code.asm.count_at(counter);
        }
        self.go_on(near);
    }

    /// Copies the target of an indirect jump to rax, which stays locked until the end of the block.
    fn hold_target(&mut self, target: Value) {
        self.claim(Gpr::RAX);
        self.copy(target, Gpr::RAX);
        self.values.release(target);
    }

    /// Saves the current value of the link register in the frame.
    fn hold_link(&mut self, link: Value) -> u32 {
        let slot = self.code.frame.take();
        let register = self.register(link);
        self.code.asm.store(8, Frame::memory(slot), register);
        self.values.release(link);
        self.values.unlock(self.code);
        slot
    }

    /// Returns if the link register, saved in a slot, held the function's own return address.
    fn return_if_own(&mut self, link: Option<u32>) {
        if let (Some(slot), Some(own)) = (link, self.own_link()) {
            self.code.asm.mov(Gpr::RAX, Frame::memory(slot));
            self.code.asm.alu(Alu::Cmp, Gpr::RAX, own);
            self.code.asm.jump_if(Cond::NOT_EQUAL, self.context.stubs.unknown_target);
            self.code.frame.give(slot);
        }
        self.give_back();
    }

    fn tail_call(&mut self, callee: FunctionId, link: Option<Value>) {
        let function = self.context.functions[callee.0 as usize];
        let Some(link) = link else {
            self.values.finish(self.code);
            return self.replace_by(function);
        };
        let slot = self.hold_link(link);
        self.values.finish(self.code);
        self.code.asm.call(function);
        // The callee returned to where the link register pointed. Only this function's own return address is
        // valid.
        self.return_if_own(Some(slot));
    }

    fn finish_return(&mut self, link: Option<Value>, locals: &[(GuestAddr, BlockId)]) {
        let (Some(link), Some(own)) = (link, self.own_link()) else {
            self.values.finish(self.code);
            return self.give_back();
        };
        let register = self.register(link);
        self.code.asm.alu(Alu::Cmp, register, own);
        self.values.release(link);
        self.values.unlock(self.code);
        // Moves do not change the flags.
        self.values.finish(self.code);
        let other = self.cold_locals(locals);
        self.code.asm.jump_if(Cond::NOT_EQUAL, other);
        self.give_back();
    }

    fn syscall(&mut self, pc: GuestAddr) {
        self.code.asm.mov_number(Gpr::RAX, pc.0.cast_signed());
        self.code.asm.call(self.context.stubs.ecall);
    }

    /// Calls the function at the guest address in rax. The function must restore `sp`.
    fn call_indirect(&mut self) {
        self.call_and_compare(self.context.stubs.dispatch);
    }

    /// Calls a function that must restore `sp`.
    fn call_and_compare(&mut self, function: Label) {
        let slot = self.code.frame.take();
        let sp = self.guest(Reg::SP, Gpr::RCX);
        self.code.asm.store(8, Frame::memory(slot), sp);
        self.code.asm.call(function);
        let sp = self.guest(Reg::SP, Gpr::RCX);
        self.code.asm.alu(Alu::Cmp, sp, Frame::memory(slot));
        self.code.asm.jump_if(Cond::NOT_EQUAL, self.context.stubs.unknown_target);
        self.code.frame.give(slot);
    }

    /// Jumps to the candidate block whose guest address is in rax, if any. Preserves rax.
    pub(crate) fn switch(&mut self, candidates: &[(GuestAddr, BlockId)]) {
        let mut cases: Vec<(u64, Label)> =
            candidates.iter().map(|(pc, block)| (pc.0, self.target(*block))).collect();
        cases.sort_by_key(|(pc, _)| *pc);
        cases.dedup_by_key(|(pc, _)| *pc);
        let other = self.code.asm.label();
        self.cases(&cases, other);
        self.code.asm.bind(other);
    }

    fn cases(&mut self, cases: &[(u64, Label)], other: Label) {
        let (Some((first, _)), Some((last, _))) = (cases.first(), cases.last()) else { return };
        let entries = (last - first) / 2 + 1;
        if cases.len() <= CHAIN_MAX {
            for (pc, label) in cases {
                self.compare_target(*pc);
                self.code.asm.jump_if(Cond::EQUAL, *label);
            }
            self.code.asm.jump(other);
        } else if entries / TABLE_ENTRIES_PER_ADDRESS <= cases.len() as u64 {
            self.jump_table(cases, *first, entries, other);
        } else {
            let (low, high) = cases.split_at(cases.len() / 2);
            let upper = self.code.asm.label();
            self.compare_target(high[0].0);
            self.code.asm.jump_if(Cond::ABOVE_EQUAL, upper);
            self.cases(low, other);
            self.code.asm.bind(upper);
            self.cases(high, other);
        }
    }

    /// Compares the target, in rax, with an address.
    fn compare_target(&mut self, pc: u64) {
        match i32::try_from(pc) {
            Ok(pc) => self.code.asm.alu_number(Alu::Cmp, Gpr::RAX, pc),
            Err(_) => {
                self.code.asm.mov_number(Gpr::RCX, pc.cast_signed());
                self.code.asm.alu(Alu::Cmp, Gpr::RAX, Gpr::RCX);
            }
        }
    }

    fn jump_table(&mut self, cases: &[(u64, Label)], first: u64, entries: u64, other: Label) {
        let mut labels = vec![other; fitted(entries)];
        for (pc, label) in cases {
            if let Some(entry) = usize::try_from((pc - first) / 2).ok().and_then(|at| labels.get_mut(at)) {
                *entry = *label;
            }
        }
        let asm = &mut self.code.asm;
        let table = asm.table(&labels);
        let (index, address) = (Gpr::RCX, Gpr::RDX);
        asm.mov_number(index, first.wrapping_neg().cast_signed());
        asm.alu(Alu::Add, index, Gpr::RAX);
        // The rotation turns an odd distance into a huge one.
        asm.shift_number(Shift::Ror, index, 1);
        asm.alu_number(Alu::Cmp, index, fitted(entries));
        asm.jump_if(Cond::ABOVE_EQUAL, other);
        asm.lea_data(address, table);
        asm.sign_extend_word(index, Mem::entry(address, index));
        asm.alu(Alu::Add, address, index);
        asm.jump_to(address);
    }
}
