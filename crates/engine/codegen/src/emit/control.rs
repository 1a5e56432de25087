//! Emits block terminators: jumps, calls, returns, syscalls.

use antares_abi::{BailoutReason, PAST_TABLE};
use antares_ir::{BinaryOp, Block, JumpTable, Op, SpAfter, Terminator, Value};
use antares_program::{BlockId, FunctionId, GuestAddr, Reg, RegSet};
use inkwell::{
    IntPredicate,
    basic_block::BasicBlock,
    values::{BasicMetadataValueEnum, BasicValueEnum, IntValue},
};

use crate::{
    Result,
    emit::{
        function::{FunctionEmitter, SharedSwitch},
        operations::predicate,
        state::Field,
    },
};

/// Minimum targets of a jump through a table; LLVM has the same option (see `optimize`).
const TABLE_ENTRIES_MIN: usize = 8;

impl<'c> FunctionEmitter<'_, 'c, '_> {
    pub(crate) fn terminator(&self, block: &Block, values: &[IntValue<'c>]) -> Result {
        let value = |value: Value| values[value.0 as usize];
        match &block.terminator {
            Terminator::Jump(to) => self.jump(*to),
            Terminator::Branch { condition, taken, otherwise } => {
                let builder = &self.emitter.builder;
                let comparison = match block.ops[condition.0 as usize] {
                    Op::Binary(op, x, y) => predicate(op).map(|predicate| (predicate, value(x), value(y))),
                    _ => None,
                };
                let (predicate, x, y) =
                    comparison.unwrap_or((IntPredicate::NE, value(*condition), self.emitter.number(0)));
                let is_taken = builder.build_int_compare(predicate, x, y, "is_taken")?;
                builder.build_conditional_branch(is_taken, self.target(*taken), self.target(*otherwise))?;
                Ok(())
            }
            Terminator::Call { callee, to } if self.emitter.ir.returns_again(*callee) => {
                self.call_again(*callee, block)?;
                self.jump(*to)
            }
            Terminator::Call { callee, to } => {
                self.call(*callee, self.emitter.ir.functions[callee.0 as usize].sp_after, false)?;
                self.jump(*to)
            }
            Terminator::TailCall { callee, link } => {
                self.call(*callee, SpAfter::Moved, true)?;
                // The callee returned to where `link` points. Only this function's own return address is
                // valid.
                self.expect_own_link(link.map(value))?;
                self.give_back()
            }
            Terminator::CallIndirect { target, live, to } => {
                self.call_indirect(value(*target), *live)?;
                self.jump(*to)
            }
            Terminator::JumpIndirect { target, candidates, may_call, link, table: None }
                if !candidates.is_empty() && self.shares_switches =>
            {
                let link = link.filter(|_| *may_call).map(value);
                self.shared_switch(value(*target), candidates, (*may_call, link))
            }
            Terminator::JumpIndirect { target, candidates, may_call, link, table } => {
                if let Some(table) = table {
                    let register = table.register.map(|(register, number)| (value(register), number));
                    self.table_switch(value(table.base), register, table, candidates)?;
                }
                // Targets that a table does not list are not worth another table.
                if !candidates.is_empty()
                    && !table.as_ref().is_some_and(|table| table.lists_all(candidates.len()))
                {
                    let other = self.emitter.context.append_basic_block(self.value, "other");
                    self.switch(value(*target), candidates, other)?;
                    self.emitter.builder.position_at_end(other);
                }
                match may_call {
                    true => self.tail_call_indirect(value(*target), link.map(value)),
                    false => self.emitter.bail_out_for(self.base, value(*target), PAST_TABLE),
                }
            }
            Terminator::Return { link, locals } => self.give_control_back(link.map(value), locals),
            Terminator::Ecall { pc, uses, to } => {
                self.ecall(*pc, *uses)?;
                self.jump(*to)
            }
            Terminator::Exit { pc } => {
                self.ecall(*pc, RegSet::of(&[Reg::A0, Reg::A7]))?;
                // The host never resumes after an exit.
                self.emitter.bail_out(BailoutReason::Unsupported)
            }
            Terminator::Leave => self.emitter.bail_out(BailoutReason::Unsupported),
        }
    }

    fn target(&self, id: BlockId) -> BasicBlock<'c> {
        self.blocks[id.0 as usize]
    }

    fn jump(&self, to: BlockId) -> Result {
        self.emitter.builder.build_unconditional_branch(self.target(to))?;
        Ok(())
    }

    /// Jumps to one of `candidates` through a block that all such jumps of the function share. An interpreter
    /// that jumps from each of its labels to every other has too many edges for one switch each. Other
    /// targets may be called, and return to `link`.
    fn shared_switch(
        &self,
        target: IntValue<'c>,
        candidates: &[(GuestAddr, BlockId)],
        (may_call, link): (bool, Option<IntValue<'c>>),
    ) -> Result {
        let (builder, i64) = (&self.emitter.builder, self.emitter.i64);
        let kind = (may_call, link.is_some());
        let is_same = |known: &&SharedSwitch| known.kind == kind && known.candidates == candidates;
        let known = self.switches.borrow().iter().find(is_same).map(|known| known.block);
        let shared = known.unwrap_or_else(|| self.emitter.context.append_basic_block(self.value, "switch"));
        builder.build_store(self.target, target)?;
        if let Some(link) = link {
            builder.build_store(self.link, link)?;
        }
        builder.build_unconditional_branch(shared)?;
        if known.is_some() {
            return Ok(());
        }
        self.switches.borrow_mut().push(SharedSwitch {
            candidates: candidates.to_vec(),
            kind,
            block: shared,
        });
        builder.position_at_end(shared);
        let other = self.emitter.context.append_basic_block(self.value, "other");
        let target = builder.build_load(i64, self.target, "target")?.into_int_value();
        self.switch(target, candidates, other)?;
        builder.position_at_end(other);
        if !may_call {
            return self.emitter.bail_out_for(self.base, target, PAST_TABLE);
        }
        let saved = match link {
            Some(_) => Some(builder.build_load(i64, self.link, "link")?.into_int_value()),
            None => None,
        };
        // Many blocks lead here, each with different registers in the state.
        self.current.forget();
        self.tail_call_indirect(target, saved)
    }

    /// Tail-calls the function at a guest address, which returns to `link`.
    fn tail_call_indirect(&self, target: IntValue<'c>, link: Option<IntValue<'c>>) -> Result {
        self.call_indirect(target, self.ir.results)?;
        self.expect_own_link(link)?;
        self.give_back()
    }

    /// Jumps through a constant table if `base` is the position of an entry and `register` holds its number.
    /// Otherwise continues in a new block.
    fn table_switch(
        &self,
        base: IntValue<'c>,
        register: Option<(IntValue<'c>, u64)>,
        table: &JumpTable,
        candidates: &[(GuestAddr, BlockId)],
    ) -> Result {
        let (emitter, i64) = (self.emitter, self.emitter.i64);
        let elsewhere = emitter.context.append_basic_block(self.value, "elsewhere");
        if let Some((register, number)) = register {
            let (number, table) =
                (i64.const_int(number, false), emitter.context.append_basic_block(self.value, "table"));
            let is_elsewhere =
                emitter.builder.build_int_compare(IntPredicate::NE, register, number, "is_elsewhere")?;
            emitter.branch_rarely(is_elsewhere, elsewhere, table)?;
            emitter.builder.position_at_end(table);
        }
        let bits = emitter.number(table.width.bytes().trailing_zeros().into());
        let index = emitter.binary(BinaryOp::Rotr, base, bits)?;
        let case =
            |(index, entry): (u64, &usize)| (i64.const_int(index, false), self.target(candidates[*entry].1));
        let cases: Vec<_> = (0..).zip(&table.entries).map(case).collect();
        emitter.builder.build_switch(index, elsewhere, &cases)?;
        emitter.builder.position_at_end(elsewhere);
        Ok(())
    }

    /// Jumps to the candidate at `target`. Many candidates use a table with a slot for each even address in
    /// their range.
    fn switch(
        &self,
        target: IntValue<'c>,
        candidates: &[(GuestAddr, BlockId)],
        other: BasicBlock<'c>,
    ) -> Result {
        let (i64, builder) = (self.emitter.i64, &self.emitter.builder);
        let low = candidates.iter().map(|(pc, _)| pc.0).min().unwrap_or(0);
        let is_table = candidates.len() >= TABLE_ENTRIES_MIN;
        let target = if is_table {
            let distance = builder.build_int_sub(target, i64.const_int(low, false), "distance")?;
            self.emitter.binary(BinaryOp::Rotr, distance, self.emitter.number(1))?
        } else {
            target
        };
        let number = |pc: GuestAddr| if is_table { pc.0.wrapping_sub(low).rotate_right(1) } else { pc.0 };
        let case =
            |(pc, block): &(GuestAddr, BlockId)| (i64.const_int(number(*pc), false), self.target(*block));
        let cases: Vec<_> = candidates.iter().map(case).collect();
        builder.build_switch(target, other, &cases)?;
        Ok(())
    }

    /// Calls a function and takes its results. Afterwards `sp` must match `sp_after`. The last call becomes a
    /// jump if these are the caller's results and nothing else remains to do.
    pub(crate) fn call(&self, callee: FunctionId, sp_after: SpAfter, is_last: bool) -> Result {
        let signature = self.emitter.signature(callee);
        let mut arguments: Vec<BasicMetadataValueEnum> = vec![self.base.into(), self.cycles_left()?.into()];
        for register in &signature.params {
            arguments.push(self.get(*register)?.into());
        }
        signature.in_state.iter().try_for_each(|register| self.spill(register))?;
        let sp = if sp_after == SpAfter::Compared { Some(self.get(Reg::SP)?) } else { None };
        let results = self.emitter.call_guest(callee, &arguments, is_last)?;
        self.set_cycles_left(results[0])?;
        for (register, value) in signature.results.iter().zip(&results[1..]) {
            self.set(*register, *value)?;
        }
        signature.overflow.iter().try_for_each(|register| self.reload(*register))?;
        self.current.call(signature);
        match sp {
            Some(sp) => self.expect(self.get(Reg::SP)?, sp),
            None => Ok(()),
        }
    }

    /// Calls the function at a guest address through the state. Afterwards the registers in `live` are
    /// current.
    fn call_indirect(&self, target: IntValue<'c>, live: RegSet) -> Result {
        let emitter = self.emitter;
        let module = emitter.ir;
        let reloads = module.indirect_changes.and(live).without(Reg::SP);
        let may_move_sp = module.indirect_changes.has(Reg::SP);
        let mut spills = module.indirect_params.or(reloads);
        if may_move_sp {
            spills = spills.with(Reg::SP);
        }
        spills.iter().try_for_each(|register| self.spill(register))?;
        emitter.write_state(self.base, Field::CYCLES_LEFT, self.cycles_left()?)?;
        let call = emitter.builder.build_call(emitter.dispatch, &[self.base.into(), target.into()], "")?;
        emitter.set_up_call(call, 2);
        self.set_cycles_left(emitter.read_state(self.base, Field::CYCLES_LEFT)?)?;
        reloads.iter().try_for_each(|register| self.reload(register))?;
        self.current.call_indirect(spills, module.indirect_changes, reloads);
        if may_move_sp {
            let sp = emitter.read_state(self.base, Field::register(Reg::SP))?;
            self.expect(sp, self.get(Reg::SP)?)?;
        }
        Ok(())
    }

    /// Bails out unless both are equal.
    fn expect(&self, found: IntValue<'c>, expected: IntValue<'c>) -> Result {
        let differs = self.emitter.builder.build_int_compare(IntPredicate::NE, found, expected, "differs")?;
        self.emitter.bail_out_if(self.value, differs, BailoutReason::UnknownTarget)
    }

    fn expect_own_link(&self, link: Option<IntValue<'c>>) -> Result {
        match (link, self.own_link) {
            (Some(link), Some(own)) => self.expect(link, own),
            _ => Ok(()),
        }
    }

    fn give_control_back(&self, link: Option<IntValue<'c>>, locals: &[(GuestAddr, BlockId)]) -> Result {
        let (Some(link), Some(own)) = (link, self.own_link) else { return self.give_back() };
        let emitter = self.emitter;
        if locals.is_empty() && self.returns_far() {
            let [far, back] =
                ["far", "back"].map(|name| emitter.context.append_basic_block(self.value, name));
            let differs = emitter.builder.build_int_compare(IntPredicate::NE, link, own, "differs")?;
            emitter.builder.build_conditional_branch(differs, far, back)?;
            emitter.builder.position_at_end(far);
            self.far_jump(link)?;
            emitter.builder.position_at_end(back);
            return self.give_back();
        }
        if locals.is_empty() {
            self.expect(link, own)?;
            return self.give_back();
        }
        let back = emitter.context.append_basic_block(self.value, "back");
        let local = emitter.context.append_basic_block(self.value, "local");
        let other = emitter.context.append_basic_block(self.value, "unknown");
        let is_own = emitter.builder.build_int_compare(IntPredicate::EQ, link, own, "is_own")?;
        emitter.builder.build_conditional_branch(is_own, back, local)?;
        emitter.builder.position_at_end(local);
        let even = emitter.builder.build_and(link, emitter.number(!1), "")?;
        self.switch(even, locals, other)?;
        emitter.builder.position_at_end(other);
        emitter.bail_out(BailoutReason::UnknownTarget)?;
        emitter.builder.position_at_end(back);
        self.give_back()
    }

    /// Returns to the host caller with the results.
    fn give_back(&self) -> Result {
        self.unmark()?;
        let signature = self.emitter.signature(self.ir.id);
        signature.overflow.iter().try_for_each(|register| self.spill(*register))?;
        let mut values: Vec<BasicValueEnum> = vec![self.cycles_left()?.into()];
        for register in &signature.results {
            values.push(self.get(*register)?.into());
        }
        self.emitter.builder.build_aggregate_return(&values)?;
        Ok(())
    }

    /// A syscall: spills the registers that it may read, and reloads those that it changes.
    fn ecall(&self, pc: GuestAddr, uses: RegSet) -> Result {
        let emitter = self.emitter;
        uses.iter().try_for_each(|register| self.spill(register))?;
        emitter.write_state(self.base, Field::PC, emitter.i64.const_int(pc.0, false))?;
        let is_complete = emitter.number(i64::from(uses == RegSet::ALL));
        emitter.write_state(self.base, Field::IS_COMPLETE, is_complete)?;
        emitter.write_state(self.base, Field::CYCLES_LEFT, self.cycles_left()?)?;
        let call = emitter.builder.build_call(emitter.ecall, &[self.base.into()], "")?;
        emitter.set_up_call(call, 1);
        self.set_cycles_left(emitter.read_state(self.base, Field::CYCLES_LEFT)?)?;
        self.set(Reg::A0, emitter.read_state(self.base, Field::register(Reg::A0))?)?;
        self.current.ecall(uses);
        Ok(())
    }
}
