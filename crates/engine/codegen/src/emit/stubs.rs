//! Small functions of every library: transitions from and to the host, indirect calls, and the carry-less
//! product.

use antares_abi::{ENTRIES_PER_GROUP, ENTRY_PAGE_BYTES, NAMES_TARGET};
use antares_ir as ir;
use antares_program::Reg;
use inkwell::{
    IntPredicate,
    attributes::AttributeLoc,
    basic_block::BasicBlock,
    values::{BasicMetadataValueEnum, BasicValue, CallSiteValue, FunctionValue, IntValue, PointerValue},
};

use crate::{
    Result,
    emit::{Emitter, Tables, state::Field, symbol},
};

/// The name of thunks in debug information, which is not a guest address.
const THUNK: &str = "thunk";

impl<'c> Emitter<'c, '_> {
    pub(crate) fn stubs(&self, tables: &Tables<'c, '_>) -> Result {
        self.define_ecall()?;
        self.define_resolve()?;
        self.define_dispatch(tables)?;
        self.define_carryless()
    }

    /// The base pointer parameter.
    pub(crate) fn base_of(&self, function: FunctionValue<'c>) -> PointerValue<'c> {
        function.get_first_param().map_or(self.ptr.const_null(), |param| param.into_pointer_value())
    }

    fn int_param(&self, function: FunctionValue<'c>, index: u32) -> IntValue<'c> {
        function.get_nth_param(index).map_or(self.i64.const_zero(), |param| param.into_int_value())
    }

    /// Calls the host for a syscall. The host itself bails out if necessary. Only this function and
    /// [`Self::define_resolve`] call by the C convention: a guest function that did would have to save vector
    /// registers at its entry.
    fn define_ecall(&self) -> Result {
        let function = self.ecall;
        let base = self.base_of(function);
        self.builder.position_at_end(self.context.append_basic_block(function, "entry"));
        let kind = self.context.void_type().fn_type(&[self.ptr.into()], false);
        let host = self.read_pointer(base, Field::ECALL)?;
        self.builder.build_indirect_call(kind, host, &[base.into()], "")?;
        self.builder.build_return(None)?;
        Ok(())
    }

    /// Calls another library's thunk for a guest address; if there is none, the host bails out.
    fn define_resolve(&self) -> Result {
        let function = self.resolve;
        let (base, target) = (self.base_of(function), self.int_param(function, 1));
        self.builder.position_at_end(self.context.append_basic_block(function, "entry"));
        let kind = self.i64.fn_type(&[self.ptr.into(), self.i64.into()], false);
        let host = self.read_pointer(base, Field::RESOLVE)?;
        let thunk = self.builder.build_indirect_call(kind, host, &[base.into(), target.into()], "thunk")?;
        let thunk = thunk.try_as_basic_value().basic().map_or(self.i64.const_zero(), |v| v.into_int_value());
        let thunk = self.builder.build_int_to_ptr(thunk, self.ptr, "thunk")?;
        self.call_thunk(base, thunk)
    }

    /// Calls a thunk, and returns.
    fn call_thunk(&self, base: PointerValue<'c>, thunk: PointerValue<'c>) -> Result {
        let kind = self.context.void_type().fn_type(&[self.ptr.into()], false);
        let call = self.builder.build_indirect_call(kind, thunk, &[base.into()], "")?;
        self.set_up_call(call, 1);
        self.builder.build_return(None)?;
        Ok(())
    }

    fn read_pointer(&self, base: PointerValue<'c>, field: Field) -> Result<PointerValue<'c>> {
        let address = self.read_state(base, field)?;
        Ok(self.builder.build_int_to_ptr(address, self.ptr, "pointer")?)
    }

    /// Calls the host's meter with the cycles left, which are negative, and returns the new value. The host
    /// preserves all registers, so that surrounding functions need not save any (see `HostTable::meter`). A
    /// no-op after the call carries the guest address.
    pub(crate) fn meter(
        &self,
        base: PointerValue<'c>,
        left: IntValue<'c>,
        pc: antares_program::GuestAddr,
    ) -> Result<IntValue<'c>> {
        let kind = self.i64.fn_type(&[self.ptr.into(), self.i64.into()], false);
        let code = format!("callq *{}($1)\n{{disp32}} nopl {}($1,$0)", Field::METER.0, pc.0);
        let constraints = "=r,r,0,~{flags}".to_owned();
        let assembly = self.context.create_inline_asm(kind, code, constraints, true, false, None, false);
        let call =
            self.builder.build_indirect_call(kind, assembly, &[base.into(), left.into()], "granted")?;
        // The host changes neither guest memory nor the parts of the state that native code reads.
        for attribute in ["nounwind", "memory"] {
            call.add_attribute(AttributeLoc::Function, self.attribute(attribute));
        }
        Ok(call.try_as_basic_value().basic().map_or(left, |value| value.into_int_value()))
    }

    /// Calls the thunk for a guest address. If there is none, bails out, or requests another library's from
    /// the host.
    fn define_dispatch(&self, tables: &Tables<'c, '_>) -> Result {
        let function = self.dispatch;
        let (base, target) = (self.base_of(function), self.int_param(function, 1));
        self.builder.position_at_end(self.context.append_basic_block(function, "entry"));
        let start = self.i64.const_int(self.ir.code_start, false);
        let distance = self.builder.build_int_sub(target, start, "distance")?;
        let page = self.divide(distance, ENTRY_PAGE_BYTES, "page")?;
        let length = self.i64.const_int(tables.plan.directory.len() as u64, false);
        let is_outside = self.builder.build_int_compare(IntPredicate::UGE, page, length, "")?;
        let unknown = self.unknown_target(function)?;
        self.go_if(function, is_outside, unknown)?;
        let (i16, i32) = (self.context.i16_type(), self.context.i32_type());
        let (directory, table) = (tables.directory.as_pointer_value(), tables.entries.as_pointer_value());
        // SAFETY: as in `field`: plain address arithmetic; the page was compared with the directory's length.
        let group = unsafe { self.builder.build_gep(i16, directory, &[page], "group")? };
        let group = self.builder.build_load(i16, group, "group")?.into_int_value();
        let group = self.builder.build_int_z_extend(group, self.i64, "group")?;
        let per_group = self.number(ENTRIES_PER_GROUP as i64);
        let first = self.builder.build_int_mul(group, per_group, "first")?;
        let slot = self.divide(distance, 2, "slot")?;
        let slot = self.builder.build_and(slot, self.number(ENTRIES_PER_GROUP as i64 - 1), "slot")?;
        let index = self.builder.build_or(first, slot, "index")?;
        // SAFETY: plain address arithmetic; the directory names groups of the table.
        let entry = unsafe { self.builder.build_gep(i32, table, &[index], "entry")? };
        let offset = self.builder.build_load(i32, entry, "offset")?.into_int_value();
        let is_none = self.builder.build_int_compare(IntPredicate::EQ, offset, i32.const_zero(), "")?;
        self.go_if(function, is_none, unknown)?;
        let offset = self.builder.build_int_s_extend(offset, self.i64, "")?;
        // SAFETY: plain address arithmetic; the table holds distances to thunks.
        let thunk = unsafe { self.builder.build_gep(self.context.i8_type(), table, &[offset], "thunk")? };
        self.call_thunk(base, thunk)
    }

    /// Divides `value` by a power of two.
    fn divide(&self, value: IntValue<'c>, by: u64, name: &str) -> Result<IntValue<'c>> {
        let bits = self.number(i64::from(by.trailing_zeros()));
        Ok(self.builder.build_right_shift(value, bits, false, name)?)
    }

    /// The block of `function` (the dispatcher) for addresses without a thunk.
    fn unknown_target(&self, function: FunctionValue<'c>) -> Result<BasicBlock<'c>> {
        let here = self.builder.get_insert_block();
        let unknown = self.context.append_basic_block(function, "unknown");
        self.builder.position_at_end(unknown);
        if self.ir.is_open {
            let arguments = [self.base_of(function).into(), self.int_param(function, 1).into()];
            let call = self.builder.build_call(self.resolve, &arguments, "")?;
            self.set_up_call(call, 2);
            self.builder.build_return(None)?;
        } else {
            self.bail_out_for(self.base_of(function), self.int_param(function, 1), NAMES_TARGET)?;
        }
        if let Some(here) = here {
            self.builder.position_at_end(here);
        }
        Ok(unknown)
    }

    /// Branches to `cold` if `is_odd`; otherwise continues in a new block of `function`.
    fn go_if(&self, function: FunctionValue<'c>, is_odd: IntValue<'c>, cold: BasicBlock<'c>) -> Result {
        let on = self.context.append_basic_block(function, "on");
        self.branch_rarely(is_odd, cold, on)?;
        self.builder.position_at_end(on);
        Ok(())
    }

    /// The entry thunk of a function: loads guest registers and cycles from the state, calls, and stores them
    /// back.
    ///
    /// The link register, and a restored `sp`, are no results; but a callee that wrote registers to the state
    /// has left its own there. After a function that the host may enter in the middle of a run, the state is
    /// complete again.
    pub(crate) fn thunk(&self, function: &ir::Function) -> Result {
        let thunk = self.declare_thunk(function);
        let base = self.base_of(thunk);
        self.builder.position_at_end(self.context.append_basic_block(thunk, "entry"));
        // LLVM may inline the function into its thunk. Without a scope, the thunk would hide it from
        // profiles.
        self.enter_scope(thunk, THUNK, function.entry);
        let signature = self.signature(function.id);
        let left = self.read_state(base, Field::CYCLES_LEFT)?;
        let mut arguments: Vec<BasicMetadataValueEnum> = vec![base.into(), left.into()];
        for register in &signature.params {
            arguments.push(self.read_state(base, Field::register(*register))?.into());
        }
        let mut kept = Vec::new();
        for register in [function.link, Reg::SP] {
            let is_read = function.is_resumable || self.ir.indirect_changes.has(register);
            if is_read && !function.results.has(register) {
                kept.push((register, self.read_state(base, Field::register(register))?));
            }
        }
        let results = self.call_guest(function.id, &arguments, false)?;
        self.write_state(base, Field::CYCLES_LEFT, results[0])?;
        for (register, value) in signature.results.iter().zip(&results[1..]) {
            self.write_state(base, Field::register(*register), *value)?;
        }
        for (register, value) in kept {
            self.write_state(base, Field::register(register), value)?;
            if register == function.link {
                let back = self.builder.build_and(value, self.number(!1), "back")?;
                self.write_state(base, Field::PC, back)?;
            }
        }
        self.write_state(base, Field::IS_COMPLETE, self.number(i64::from(function.is_resumable)))?;
        self.builder.build_return(None)?;
        Ok(())
    }

    /// The thunk of a function, which the entry table points to. Two functions may begin at one address.
    pub(crate) fn declare_thunk(&self, function: &ir::Function) -> FunctionValue<'c> {
        let name = symbol("enter", function);
        if let Some(thunk) = self.module.get_function(&name) {
            return thunk;
        }
        let kind = self.context.void_type().fn_type(&[self.ptr.into()], false);
        let thunk = self.add_function(&name, kind, self.part.of == 1);
        self.set_up(thunk);
        thunk
    }

    /// Calls a guest function. Returns the cycles left and the results in registers.
    pub(crate) fn call_guest(
        &self,
        id: antares_program::FunctionId,
        arguments: &[BasicMetadataValueEnum<'c>],
        is_last: bool,
    ) -> Result<Vec<IntValue<'c>>> {
        let call = self.builder.build_call(self.function(id), arguments, "call")?;
        call.set_tail_call(is_last);
        self.set_up_call(call, u32::try_from(arguments.len()).expect("there are 32 registers"));
        self.fields(call, "result")
    }

    /// The numbers that a call returns.
    pub(crate) fn fields(&self, call: CallSiteValue<'c>, name: &str) -> Result<Vec<IntValue<'c>>> {
        let Some(aggregate) = call.try_as_basic_value().basic() else { return Ok(Vec::new()) };
        let aggregate = aggregate.into_struct_value();
        let field = |index| Ok(self.builder.build_extract_value(aggregate, index, name)?.into_int_value());
        (0..aggregate.get_type().count_fields()).map(field).collect()
    }

    /// Both halves of the carry-less product, bit by bit.
    fn define_carryless(&self) -> Result {
        let function = self.carryless;
        let i128 = self.context.i128_type();
        let (x, y) = (self.int_param(function, 0), self.int_param(function, 1));
        let entry = self.context.append_basic_block(function, "entry");
        let turn = self.context.append_basic_block(function, "turn");
        let end = self.context.append_basic_block(function, "end");
        self.builder.position_at_end(entry);
        let wide = self.builder.build_int_z_extend(x, i128, "wide")?;
        self.builder.build_unconditional_branch(turn)?;
        self.builder.position_at_end(turn);
        let index = self.builder.build_phi(self.i64, "index")?;
        let sum = self.builder.build_phi(i128, "sum")?;
        let at = index.as_basic_value().into_int_value();
        let bit = self.builder.build_right_shift(y, at, false, "")?;
        let bit = self.builder.build_int_truncate(bit, self.context.bool_type(), "bit")?;
        let distance = self.builder.build_int_z_extend(at, i128, "")?;
        let shifted = self.builder.build_left_shift(wide, distance, "shifted")?;
        let part = self.builder.build_select(bit, shifted, i128.const_zero(), "part")?.into_int_value();
        let next_sum = self.builder.build_xor(sum.as_basic_value().into_int_value(), part, "next_sum")?;
        let next = self.builder.build_int_add(at, self.number(1), "next")?;
        let is_done = self.builder.build_int_compare(IntPredicate::EQ, next, self.number(64), "")?;
        self.builder.build_conditional_branch(is_done, end, turn)?;
        index.add_incoming(&[(&self.number(0), entry), (&next, turn)]);
        sum.add_incoming(&[(&i128.const_zero(), entry), (&next_sum, turn)]);
        self.builder.position_at_end(end);
        let low = self.builder.build_int_truncate(next_sum, self.i64, "low")?;
        let high = self.builder.build_right_shift(next_sum, i128.const_int(64, false), false, "")?;
        let high = self.builder.build_int_truncate(high, self.i64, "high")?;
        self.builder.build_aggregate_return(&[low.as_basic_value_enum(), high.as_basic_value_enum()])?;
        Ok(())
    }
}
