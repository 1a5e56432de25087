//! The stack of native code: guest recursion ends at its guard, never in host memory.

use std::ops::Range;

use crate::{
    VmError,
    limits::{NATIVE_STACK_GUARD_BYTES, PAGE_BYTES},
    mapping::Mapping,
};

/// Bytes of stack that are wiped at a time.
const WIPED_BYTES: usize = NATIVE_STACK_GUARD_BYTES;

/// A stack with a guard below and one above.
#[derive(Debug)]
pub(crate) struct NativeStack {
    mapping: Mapping,
    bytes: usize,
}

impl NativeStack {
    /// Maps a stack of `bytes`, rounded up to whole pages.
    pub(crate) fn map(bytes: usize) -> Result<Self, VmError> {
        let bytes = bytes.next_multiple_of(PAGE_BYTES);
        let total = NATIVE_STACK_GUARD_BYTES + bytes + PAGE_BYTES;
        let failed = |source| VmError::Map { what: "native stack", bytes: total, source };
        let mut mapping = Mapping::reserve(total).map_err(failed)?;
        mapping.open(NATIVE_STACK_GUARD_BYTES..NATIVE_STACK_GUARD_BYTES + bytes).map_err(failed)?;
        Ok(Self { mapping, bytes })
    }

    /// The stack pointer to start with; 16-byte aligned.
    pub(crate) fn top(&self) -> *mut u8 {
        self.mapping.at(NATIVE_STACK_GUARD_BYTES + self.bytes)
    }

    /// Host addresses of the guard below.
    pub(crate) fn guard(&self) -> Range<usize> {
        self.mapping.at(0) as usize..self.mapping.at(NATIVE_STACK_GUARD_BYTES) as usize
    }

    /// Zeroes what was used of the stack. No frame is as large as the guard, so that where as much was not touched, nothing
    /// below was.
    pub(crate) fn wipe(&mut self) {
        let mut end = NATIVE_STACK_GUARD_BYTES + self.bytes;
        while end > NATIVE_STACK_GUARD_BYTES {
            let start = end.saturating_sub(WIPED_BYTES).max(NATIVE_STACK_GUARD_BYTES);
            if !self.mapping.zero(start..end) {
                return;
            }
            end = start;
        }
    }

    /// Gives the stack's memory back.
    pub(crate) fn clear(&mut self) {
        self.mapping.clear(NATIVE_STACK_GUARD_BYTES..NATIVE_STACK_GUARD_BYTES + self.bytes);
    }
}
