//! Loads programs without writing zeros: empty pages of a program are already zero in unused memory. ckb-vm
//! writes them all, and Rust scripts have half a megabyte of heap among them.

use std::borrow::Cow;

use ckb_vm::{
    RISCV_MAX_MEMORY, RISCV_PAGESIZE,
    elf::{LoadingAction, ProgramMetadata},
    memory::FLAG_DIRTY,
};

use crate::{memory::Core, pages::Pages};

const PAGE_BYTES: u64 = RISCV_PAGESIZE as u64;

/// The actions that ckb-vm still has to load into `core`: without their empty pages, whose flags are set
/// here. Returns all of `metadata` if memory may be in use, or if actions overlap: the later one wins there.
pub(crate) fn without_zeros<'a>(core: &mut Core, metadata: &'a ProgramMetadata) -> Cow<'a, ProgramMetadata> {
    if !core.take_blank() || !are_disjoint(&metadata.actions) {
        return Cow::Borrowed(metadata);
    }
    let mut lean = metadata.clone();
    for action in &mut lean.actions {
        let length = action.source.end.saturating_sub(action.source.start);
        let used = action.offset_from_addr.saturating_add(length).min(action.size);
        // No overflow: it is at most `size`, which is whole pages.
        let used = used.next_multiple_of(PAGE_BYTES);
        let empty = Pages::holding(action.addr + used..action.addr + action.size);
        core.add_flags(empty, action.flags | FLAG_DIRTY);
        action.size = used;
    }
    Cow::Owned(lean)
}

/// Whether all actions consist of whole pages in memory, and no two share a page.
fn are_disjoint(actions: &[LoadingAction]) -> bool {
    let mut taken = Pages::default();
    actions.iter().all(|action| {
        let Some(end) = action.addr.checked_add(action.size) else { return false };
        let pages = Pages::holding(action.addr..end);
        let is_apart = taken.and(pages).is_empty();
        taken = taken.or(pages);
        is_apart
            && end <= RISCV_MAX_MEMORY as u64
            && [action.addr, action.size].iter().all(|number| number.is_multiple_of(PAGE_BYTES))
            && action.offset_from_addr <= action.size
    })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use ckb_vm::{
        SupportMachine,
        machine::asm::AsmCoreMachineRevealer,
        memory::{FLAG_EXECUTABLE, FLAG_FREEZED},
    };

    use super::*;

    fn action(first: u64, pages: u64, offset_from_addr: u64, length: u64) -> LoadingAction {
        let flags = if first.is_multiple_of(2) { 0 } else { FLAG_EXECUTABLE | FLAG_FREEZED };
        let (addr, size) = (first * PAGE_BYTES, pages * PAGE_BYTES);
        LoadingAction { addr, size, flags, source: 16..16 + length, offset_from_addr }
    }

    fn core() -> Core {
        <Core as AsmCoreMachineRevealer>::new(0, 2, 1, RISCV_MAX_MEMORY)
    }

    /// Checks that both ways of loading give the same memory, flags, registers and errors.
    #[track_caller]
    fn check(actions: &[LoadingAction], is_lean: bool) {
        let program = Bytes::from([1, 2, 3, 255].repeat(5000));
        let metadata = ProgramMetadata { actions: actions.to_vec(), entry: 0x1000 };
        let (mut expected, mut found) = (core(), core());
        let wanted = expected.load_binary(&program, &metadata, true);
        let lean = without_zeros(&mut found, &metadata);
        assert_eq!(matches!(lean, Cow::Owned(_)), is_lean, "{actions:?}");
        assert_eq!(found.load_binary(&program, &lean, true), wanted, "{actions:?}");
        if wanted.is_ok() {
            assert!(found.bytes() == expected.bytes(), "{actions:?}");
            assert_eq!(found.as_ref().flags, expected.as_ref().flags, "{actions:?}");
            assert_eq!(found.as_ref().pc, expected.as_ref().pc);
        }
        // Memory is used now.
        assert!(matches!(without_zeros(&mut found, &metadata), Cow::Borrowed(_)));
    }

    #[test]
    fn memory_and_flags_are_as_ckb_vm_has_them() {
        check(&[action(16, 2, 0, 8192), action(18, 130, 0xab8, 185)], true);
        check(&[action(17, 3, 0x10, 100), action(20, 1, 0, 4096), action(1000, 24, 0, 0)], true);
        // The source is longer than its segment.
        check(&[action(4, 1, 8, 9000)], true);
        check(&[action(4, 0, 0, 0)], true);
        check(&[], true);
    }

    #[test]
    fn what_meets_or_makes_no_sense_is_left_to_ckb_vm() {
        check(&[action(16, 4, 0, 10), action(18, 4, 0, 10)], false);
        check(&[action(17, 4, 0, 10), action(18, 4, 0, 10)], false);
        check(&[action(1020, 5, 0, 10)], false);
        check(&[action(16, 1, 5000, 10)], false);
        check(&[LoadingAction { size: 5000, ..action(16, 1, 0, 10) }], false);
        check(&[LoadingAction { addr: u64::MAX, ..action(16, 1, 0, 10) }], false);
    }

    #[test]
    fn a_machine_that_was_reset_has_been_used() {
        let mut core = core();
        SupportMachine::reset(&mut core, 1);
        assert!(!core.take_blank());
    }
}
