//! Guest memory: address checks, loads, stores.

use antares_abi::BailoutReason;
use antares_ir::{Access, Width};
use inkwell::{
    IntPredicate,
    types::{AsTypeRef, IntType},
    values::{AsValueRef, FunctionValue, InstructionValue, IntValue, PointerValue},
};
use llvm_sys::{LLVMGEPFlagNUSW, core::LLVMBuildGEPWithNoWrapFlags};

use crate::{CodegenError, emit::Emitter};

/// Where a guest access goes.
#[derive(Clone, Copy)]
pub(crate) struct Address<'c> {
    pub(crate) base: IntValue<'c>,
    pub(crate) offset: i64,
    /// Whether a check or the guard of a loop has seen to it that it lies in memory.
    pub(crate) is_proved: bool,
}

impl<'c> Emitter<'c, '_> {
    fn width(&self, width: Width) -> IntType<'c> {
        match width {
            Width::Byte => self.context.i8_type(),
            Width::Half => self.context.i16_type(),
            Width::Word => self.context.i32_type(),
            Width::Double => self.i64,
        }
    }

    /// The check of a stack frame, once at the entry of its function: loads and stores both.
    pub(crate) fn check_frame(
        &self,
        function: FunctionValue<'c>,
        sp: IntValue<'c>,
        low: i64,
    ) -> Result<(), CodegenError> {
        let (start, end) = self.ir.bounds(Access::Write);
        let end = end.min(self.ir.bounds(Access::Read).1);
        self.check_between(function, (start, end), sp, (low, 0))
    }

    /// Leaves native code unless `[base + low, base + high)` lies inside the bounds, modulo 2^64 and without
    /// a wrap.
    pub(crate) fn check_between(
        &self,
        function: FunctionValue<'c>,
        (start, end): (u64, u64),
        base: IntValue<'c>,
        (low, high): (i64, i64),
    ) -> Result<(), CodegenError> {
        let span = high.wrapping_sub(low).cast_unsigned();
        let Some(room) = end.checked_sub(start).and_then(|bytes| bytes.checked_sub(span)) else {
            let always = self.context.bool_type().const_int(1, false);
            return self.bail_out_if(function, always, BailoutReason::BadAddress);
        };
        let offset = self.number(low.wrapping_sub_unsigned(start));
        let distance = self.builder.build_int_add(base, offset, "distance")?;
        let room = self.i64.const_int(room, false);
        let is_bad = self.builder.build_int_compare(IntPredicate::UGT, distance, room, "is_bad")?;
        self.bail_out_if(function, is_bad, BailoutReason::BadAddress)
    }

    fn host_address(
        &self,
        memory: PointerValue<'c>,
        Address { base, offset, is_proved }: Address<'c>,
    ) -> Result<PointerValue<'c>, CodegenError> {
        let i8 = self.context.i8_type();
        if is_proved {
            let index = self.builder.build_int_add(base, self.number(offset), "index")?;
            return Ok(self.inside_memory(memory, index));
        }
        // SAFETY: inkwell marks address arithmetic unsafe; it is not `inbounds` and wraps, whatever the
        // operands are. That the sum lies in guest memory was checked by the IR's `check` before.
        unsafe {
            let at_base = self.builder.build_gep(i8, memory, &[base], "at_base")?;
            Ok(self.builder.build_gep(i8, at_base, &[self.number(offset)], "address")?)
        }
    }

    /// The host address of a guest address that is known to be one, so that LLVM knows how far a loop's
    /// accesses are apart.
    fn inside_memory(&self, memory: PointerValue<'c>, index: IntValue<'c>) -> PointerValue<'c> {
        let mut indices = [index.as_value_ref()];
        // SAFETY: the builder stands in a block; pointer, type and index are of its context, and the index is
        // counted. The sum cannot wrap where it is used: guest memory lies in the address space as a whole,
        // and it is proved that the index is in it.
        unsafe {
            PointerValue::new(LLVMBuildGEPWithNoWrapFlags(
                self.builder.as_mut_ptr(),
                self.context.i8_type().as_type_ref(),
                memory.as_value_ref(),
                indices.as_mut_ptr(),
                1,
                c"address".as_ptr(),
                LLVMGEPFlagNUSW,
            ))
        }
    }

    pub(crate) fn load(
        &self,
        memory: PointerValue<'c>,
        (width, is_signed): (Width, bool),
        address: Address<'c>,
    ) -> Result<IntValue<'c>, CodegenError> {
        let address = self.host_address(memory, address)?;
        let value = self.builder.build_load(self.width(width), address, "loaded")?.into_int_value();
        unaligned(value.as_instruction());
        match width {
            Width::Double => Ok(value),
            _ => self.widen(value, self.i64, is_signed),
        }
    }

    pub(crate) fn store(
        &self,
        memory: PointerValue<'c>,
        (width, is_kept): (Width, bool),
        address: Address<'c>,
        value: IntValue<'c>,
    ) -> Result<(), CodegenError> {
        let address = self.host_address(memory, address)?;
        let value = match width {
            Width::Double => value,
            _ => self.builder.build_int_truncate(value, self.width(width), "")?,
        };
        let store = self.builder.build_store(address, value)?;
        unaligned(Some(store));
        if is_kept || self.ir.keeps_stores {
            // LLVM drops a store of what was just loaded from there. This fails for other instructions alone.
            let _ = store.set_volatile(true);
        }
        Ok(())
    }
}

/// Guest accesses may be unaligned.
fn unaligned(instruction: Option<InstructionValue<'_>>) {
    if let Some(instruction) = instruction {
        // Fails only for instructions that have no alignment; loads and stores have one.
        let _ = instruction.set_alignment(1);
    }
}
