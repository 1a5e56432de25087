//! The stack of native code: guest recursion ends at its guard, never in host memory.

use std::ops::Range;

use crate::{
    VmError,
    limits::{NATIVE_STACK_GUARD_BYTES, PAGE_BYTES},
    mapping::Mapping,
    reserve::Reserve,
    wiper::{Order, Wiper},
};

/// Native stacks of the default size that nobody uses.
pub(crate) static STACKS: Reserve<NativeStack> = Reserve::new();

/// A stack with a guard below and one above.
#[derive(Debug)]
pub(crate) struct NativeStack {
    mapping: Mapping,
    bytes: usize,
    wiper: Wiper,
}

impl NativeStack {
    /// Maps a stack of `bytes`, rounded up to whole pages.
    pub(crate) fn map(bytes: usize) -> Result<Self, VmError> {
        let bytes = bytes.next_multiple_of(PAGE_BYTES);
        let total = NATIVE_STACK_GUARD_BYTES + bytes + PAGE_BYTES;
        let failed = |source| VmError::Map { what: "native stack", bytes: total, source };
        let mut mapping = Mapping::reserve(total).map_err(failed)?;
        mapping.open(NATIVE_STACK_GUARD_BYTES..NATIVE_STACK_GUARD_BYTES + bytes).map_err(failed)?;
        let part = NATIVE_STACK_GUARD_BYTES..NATIVE_STACK_GUARD_BYTES + bytes;
        Ok(Self { mapping, bytes, wiper: Wiper::new(part, Order::Down) })
    }

    /// The stack pointer to start with; 16-byte aligned.
    pub(crate) fn top(&self) -> *mut u8 {
        self.mapping.at(NATIVE_STACK_GUARD_BYTES + self.bytes)
    }

    /// Host addresses of the guard below.
    pub(crate) fn guard(&self) -> Range<usize> {
        self.mapping.at(0) as usize..self.mapping.at(NATIVE_STACK_GUARD_BYTES) as usize
    }

    /// Zeroes what was used of the stack.
    pub(crate) fn wipe(&mut self) {
        self.wiper.wipe(&mut self.mapping);
    }

    /// Gives the stack's memory back.
    pub(crate) fn clear(&mut self) {
        self.mapping.clear(NATIVE_STACK_GUARD_BYTES..NATIVE_STACK_GUARD_BYTES + self.bytes);
    }
}
