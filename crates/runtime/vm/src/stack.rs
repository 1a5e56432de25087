//! The stack of native code: guest recursion ends at its guard and never reaches host memory.

use std::{io, ops::Range};

use crate::{
    VmError,
    limits::{NATIVE_STACK_GUARD_BYTES, PAGE_BYTES},
    mapping::Mapping,
    reserve::Reserve,
    wiper::{Order, Wiper},
};

/// Idle native stacks of the default size.
pub(crate) static STACKS: Reserve<NativeStack> = Reserve::new();

/// A stack with a guard below and one above.
#[derive(Debug)]
pub(crate) struct NativeStack {
    mapping: Mapping,
    bytes: usize,
    wiper: Wiper,
    /// Whether it is usable; otherwise it is only address space.
    is_open: bool,
}

impl NativeStack {
    /// Maps a stack of `bytes`, rounded up to whole pages.
    pub(crate) fn map(bytes: usize) -> Result<Self, VmError> {
        let bytes = bytes.next_multiple_of(PAGE_BYTES);
        let mapping = Mapping::reserve(total(bytes)).map_err(|source| failed(bytes, source))?;
        Self::of(mapping, bytes).opened()
    }

    /// Reserves address space for `count` stacks of `bytes`, in whole pages.
    pub(crate) fn reserve(bytes: usize, count: usize) -> Result<Vec<Self>, VmError> {
        let mappings = Mapping::reserve_many(total(bytes), count).map_err(|source| failed(bytes, source))?;
        Ok(mappings.into_iter().map(|mapping| Self::of(mapping, bytes)).collect())
    }

    fn of(mapping: Mapping, bytes: usize) -> Self {
        let part = NATIVE_STACK_GUARD_BYTES..NATIVE_STACK_GUARD_BYTES + bytes;
        Self { mapping, bytes, wiper: Wiper::new(part, Order::Down), is_open: false }
    }

    /// Makes the stack usable.
    pub(crate) fn opened(mut self) -> Result<Self, VmError> {
        if !std::mem::replace(&mut self.is_open, true) {
            let part = NATIVE_STACK_GUARD_BYTES..NATIVE_STACK_GUARD_BYTES + self.bytes;
            self.mapping.open(part).map_err(|source| failed(self.bytes, source))?;
        }
        Ok(self)
    }

    /// The initial stack pointer; 16-byte aligned.
    pub(crate) fn top(&self) -> *mut u8 {
        self.mapping.at(NATIVE_STACK_GUARD_BYTES + self.bytes)
    }

    /// Host addresses of the guard below.
    pub(crate) fn guard(&self) -> Range<usize> {
        self.mapping.at(0) as usize..self.mapping.at(NATIVE_STACK_GUARD_BYTES) as usize
    }

    /// Zeroes the used part of the stack.
    pub(crate) fn wipe(&mut self) {
        self.wiper.wipe(&mut self.mapping, None);
    }

    /// Number of bytes in use above `stack_pointer`.
    pub(crate) fn depth(&self, stack_pointer: usize) -> usize {
        (self.top() as usize).saturating_sub(stack_pointer)
    }

    /// Returns the memory below `stack_pointer` to the kernel.
    pub(crate) fn trim(&mut self, stack_pointer: usize) {
        let end = NATIVE_STACK_GUARD_BYTES + self.bytes - self.depth(stack_pointer).min(self.bytes);
        self.mapping.clear(NATIVE_STACK_GUARD_BYTES..end / PAGE_BYTES * PAGE_BYTES);
    }

    /// Returns the stack for reuse by the next machine, possibly of another transaction.
    pub(crate) fn give_back(mut self) {
        let Some(pages_max) = STACKS.space() else { return };
        self.wipe();
        self.wiper.shrink(&mut self.mapping, None, pages_max);
        STACKS.give(self);
    }

    /// Returns the stack's memory to the kernel.
    pub(crate) fn clear(&mut self) {
        self.mapping.clear(NATIVE_STACK_GUARD_BYTES..NATIVE_STACK_GUARD_BYTES + self.bytes);
    }
}

/// Total bytes including both guards.
fn total(bytes: usize) -> usize {
    NATIVE_STACK_GUARD_BYTES + bytes + PAGE_BYTES
}

fn failed(bytes: usize, source: io::Error) -> VmError {
    VmError::Map { what: "native stack", bytes: total(bytes), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_below_the_stack_pointer_is_given_back() {
        let mut stack = NativeStack::map(1 << 20).unwrap();
        let top = stack.top() as usize;
        let byte = |depth: usize| (top - depth) as *mut u8;
        // SAFETY: the stack is mapped, and nothing runs on it.
        unsafe {
            byte(9000).write(1);
            byte(20_000).write(2);
            assert_eq!(stack.depth(top - 10_000), 10_000);
            stack.trim(top - 10_000);
            assert_eq!((byte(9000).read(), byte(20_000).read()), (1, 0));
            // No stack is in use at all.
            stack.trim(top);
            assert_eq!(byte(9000).read(), 0);
        }
        assert_eq!(stack.depth(top + 1), 0);
    }
}
