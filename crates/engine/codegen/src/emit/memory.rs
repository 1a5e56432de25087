//! Guest memory: address checks, loads, stores.

use antares_abi::BailoutReason;
use antares_ir::{Width, span};
use inkwell::{
    IntPredicate,
    types::{AsTypeRef, IntType},
    values::{AsValueRef, FunctionValue, InstructionValue, IntValue, PointerValue},
};
use llvm_sys::{LLVMGEPFlagNUSW, core::LLVMBuildGEPWithNoWrapFlags};

use crate::{Result, emit::Emitter};

/// The address of a guest access.
#[derive(Clone, Copy)]
pub(crate) struct Address<'c> {
    pub(crate) base: IntValue<'c>,
    pub(crate) offset: i64,
    /// Whether a check or a loop's guard proves that it lies in memory.
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

    /// Bails out unless `[base + low, base + high)` lies inside the bounds, modulo 2^64 and without a wrap.
    pub(crate) fn check_between(
        &self,
        function: FunctionValue<'c>,
        bounds: (u64, u64),
        base: IntValue<'c>,
        (low, high): (i64, i64),
    ) -> Result {
        let Some((offset, room)) = span(bounds, low, high) else {
            let always = self.context.bool_type().const_int(1, false);
            return self.bail_out_if(function, always, BailoutReason::BadAddress);
        };
        let distance = self.builder.build_int_add(base, self.number(offset), "distance")?;
        let room = self.i64.const_int(room, false);
        let is_bad = self.builder.build_int_compare(IntPredicate::UGT, distance, room, "is_bad")?;
        self.bail_out_if(function, is_bad, BailoutReason::BadAddress)
    }

    fn host_address(
        &self,
        memory: PointerValue<'c>,
        Address { base, offset, is_proved }: Address<'c>,
    ) -> Result<PointerValue<'c>> {
        let i8 = self.context.i8_type();
        if is_proved {
            let index = self.builder.build_int_add(base, self.number(offset), "index")?;
            return Ok(self.inside_memory(memory, index));
        }
        // SAFETY: inkwell marks address arithmetic unsafe; it is not `inbounds` and wraps for all operands.
        // The IR's earlier `check` ensures that the sum lies in guest memory.
        unsafe {
            let at_base = self.builder.build_gep(i8, memory, &[base], "at_base")?;
            Ok(self.builder.build_gep(i8, at_base, &[self.number(offset)], "address")?)
        }
    }

    /// The host address of a proved guest address, in a form that tells LLVM the distances between a loop's
    /// accesses.
    fn inside_memory(&self, memory: PointerValue<'c>, index: IntValue<'c>) -> PointerValue<'c> {
        let mut indices = [index.as_value_ref()];
        // SAFETY: the builder is positioned in a block; pointer, type and index belong to its context, and
        // the index count is 1. Used sums cannot wrap: guest memory lies in the address space as a whole, and
        // the index is proved to lie in guest memory.
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
    ) -> Result<IntValue<'c>> {
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
    ) -> Result {
        let address = self.host_address(memory, address)?;
        let value = match width {
            Width::Double => value,
            _ => self.builder.build_int_truncate(value, self.width(width), "")?,
        };
        let store = self.builder.build_store(address, value)?;
        unaligned(Some(store));
        if is_kept || self.ir.keeps_stores {
            // LLVM drops a store of a value just loaded from there. Only fails for other instructions.
            let _ = store.set_volatile(true);
        }
        Ok(())
    }
}

/// Marks a guest access, which may be unaligned.
fn unaligned(instruction: Option<InstructionValue<'_>>) {
    if let Some(instruction) = instruction {
        // Fails only for instructions without an alignment; loads and stores have one.
        let _ = instruction.set_alignment(1);
    }
}
