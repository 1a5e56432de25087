//! Calls that return again (`setjmp`), and returns to them (`longjmp`): the host knows which frames wait, and
//! resumes them.
//!
//! A frame is marked before such a call and unmarked before it ends, so the host never resumes in a dead
//! frame. After the second return all registers, `sp` too, come from the state. The function's other values
//! are unchanged since its start (base, its own return address), and `returns_twice` makes LLVM preserve
//! them.

use antares_abi::BailoutReason;
use antares_ir::{Block, Returns, SpAfter};
use antares_program::{FunctionId, Reg};
use inkwell::{
    IntPredicate,
    attributes::AttributeLoc,
    types::BasicMetadataTypeEnum,
    values::{BasicMetadataValueEnum, CallSiteValue, IntValue, PointerValue},
};

use crate::{
    Result,
    emit::{Emitter, function::FunctionEmitter, state::Field},
};

impl<'c> Emitter<'c, '_> {
    /// Calls a function of the host.
    fn call_host(
        &self,
        base: PointerValue<'c>,
        function: Field,
        arguments: &[IntValue<'c>],
    ) -> Result<CallSiteValue<'c>> {
        let mut kinds: Vec<BasicMetadataTypeEnum> = vec![self.ptr.into()];
        kinds.extend(arguments.iter().map(|_| BasicMetadataTypeEnum::from(self.i64)));
        let kind = self.i64.fn_type(&kinds, false);
        let address = self.read_state(base, function)?;
        let host = self.builder.build_int_to_ptr(address, self.ptr, "host")?;
        let mut all: Vec<BasicMetadataValueEnum> = vec![base.into()];
        all.extend(arguments.iter().map(|argument| BasicMetadataValueEnum::from(*argument)));
        let call = self.builder.build_indirect_call(kind, host, &all, "host")?;
        call.add_attribute(AttributeLoc::Function, self.attribute("nounwind"));
        Ok(call)
    }
}

impl<'c> FunctionEmitter<'_, 'c, '_> {
    /// Calls `callee`, which may return more than once.
    pub(crate) fn call_again(&self, callee: FunctionId, block: &Block) -> Result {
        let emitter = self.emitter;
        let Some(back) = block.written(Reg::RA).and_then(|value| block.number(value)) else {
            return self.call(callee, SpAfter::Same, false);
        };
        let arguments = [emitter.number(back), self.get(Reg::SP)?];
        let call = emitter.call_host(self.base, Field::MARK, &arguments)?;
        call.add_attribute(AttributeLoc::Function, emitter.attribute("returns_twice"));
        let times =
            call.try_as_basic_value().basic().map_or(emitter.number(0), |value| value.into_int_value());
        let is_again =
            emitter.builder.build_int_compare(IntPredicate::NE, times, emitter.number(0), "is_again")?;
        let [first, again, behind] =
            ["first", "again", "behind"].map(|name| emitter.context.append_basic_block(self.value, name));
        emitter.branch_rarely(is_again, again, first)?;
        emitter.builder.position_at_end(again);
        self.set_cycles_left(emitter.read_state(self.base, Field::CYCLES_LEFT)?)?;
        let signature = emitter.signature(callee);
        let changed = signature.results.iter().chain(&signature.overflow);
        changed.chain(&[Reg::SP]).try_for_each(|register| self.reload(*register))?;
        emitter.builder.build_unconditional_branch(behind)?;
        emitter.builder.position_at_end(first);
        self.call(callee, SpAfter::Same, false)?;
        emitter.builder.build_unconditional_branch(behind)?;
        emitter.builder.position_at_end(behind);
        Ok(())
    }

    /// Removes the frame's marks before the function ends.
    pub(crate) fn unmark(&self) -> Result {
        if self.emitter.ir.has_marks(self.ir) {
            self.emitter.call_host(self.base, Field::UNMARK, &[])?;
        }
        Ok(())
    }

    /// Whether the function may return to a call that returned before.
    pub(crate) fn returns_far(&self) -> bool {
        self.ir.returns == Returns::Far && self.ir.results.has(Reg::SP) && !self.emitter.ir.is_open
    }

    /// Resumes at `target`, if a marked frame waits there. Ends the block.
    pub(crate) fn far_jump(&self, target: IntValue<'c>) -> Result {
        let emitter = self.emitter;
        self.ir.results.iter().try_for_each(|register| self.spill(register))?;
        emitter.write_state(self.base, Field::CYCLES_LEFT, self.cycles_left()?)?;
        emitter.call_host(self.base, Field::FAR_JUMP, &[target])?;
        // The host function does not return.
        emitter.bail_out(BailoutReason::UnknownTarget)
    }
}
