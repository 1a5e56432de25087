//! Access to the state that native code shares with the host.

use std::mem::offset_of;

use antares_abi::{HOST_TABLE_OFFSET, HostTable, STATE_OFFSET, State};
use antares_program::Reg;
use inkwell::values::{IntValue, PointerValue};

use crate::{Result, emit::Emitter};

/// A field of [`State`] or [`HostTable`], by its distance from base.
#[derive(Clone, Copy)]
pub(crate) struct Field(pub(crate) usize);

impl Field {
    pub(crate) const PC: Self = Self::of_state(offset_of!(State, pc));
    pub(crate) const CYCLES_LEFT: Self = Self::of_state(offset_of!(State, cycles_left));
    pub(crate) const IS_COMPLETE: Self = Self::of_state(offset_of!(State, is_complete));
    pub(crate) const ECALL: Self = Self(HOST_TABLE_OFFSET + offset_of!(HostTable, ecall));
    pub(crate) const METER: Self = Self(HOST_TABLE_OFFSET + offset_of!(HostTable, meter));
    pub(crate) const RESOLVE: Self = Self(HOST_TABLE_OFFSET + offset_of!(HostTable, resolve));
    pub(crate) const MARK: Self = Self(HOST_TABLE_OFFSET + offset_of!(HostTable, mark));
    pub(crate) const UNMARK: Self = Self(HOST_TABLE_OFFSET + offset_of!(HostTable, unmark));
    pub(crate) const FAR_JUMP: Self = Self(HOST_TABLE_OFFSET + offset_of!(HostTable, far_jump));

    const fn of_state(offset: usize) -> Self {
        Self(STATE_OFFSET + offset)
    }

    pub(crate) fn register(register: Reg) -> Self {
        Self::of_state(State::register_offset(register.index()))
    }
}

impl<'c> Emitter<'c, '_> {
    pub(crate) fn field(&self, base: PointerValue<'c>, field: Field) -> Result<PointerValue<'c>> {
        let offset = self.i64.const_int(field.0 as u64, false);
        // SAFETY: inkwell marks address arithmetic unsafe; it is not `inbounds` and wraps for all operands.
        Ok(unsafe { self.builder.build_gep(self.context.i8_type(), base, &[offset], "field")? })
    }

    pub(crate) fn read_state(&self, base: PointerValue<'c>, field: Field) -> Result<IntValue<'c>> {
        let field = self.field(base, field)?;
        Ok(self.builder.build_load(self.i64, field, "state")?.into_int_value())
    }

    pub(crate) fn write_state(&self, base: PointerValue<'c>, field: Field, value: IntValue<'c>) -> Result {
        let field = self.field(base, field)?;
        self.builder.build_store(field, value)?;
        Ok(())
    }
}
