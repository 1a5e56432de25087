//! Why a suspended VM resumes unchanged, although native code does not mark the pages that it writes.
//!
//! ckb-vm saves the pages that were written since they were filled. It restores the others from their source:
//! a cell, a witness, or zeros (`snapshot2.rs`). If each unwritten page still has the bytes of its source,
//! the restored content is correct, whichever pages were marked. So it is enough to mark all pages that
//! differ from their source, and marking more is harmless.
//! [`Core::mark_changes`](crate::memory::Core::mark_changes) marks all touched pages that have a source or
//! are not zeros.
//!
//! Only the loader can produce unwritten pages that differ from their source. It records sources after all
//! segments and the arguments are in memory. A segment or arguments that overlap pages of the first segment
//! are then lost. The interpreter runs such a program, and marks what ckb-vm marks ([`filled`]). (Code that
//! is loaded at run time can differ too, but cannot be written.)

use ckb_vm::{DEFAULT_STACK_SIZE, RISCV_MAX_MEMORY, elf::ProgramMetadata};

use crate::pages::Pages;

/// The pages that the loader filled from the ELF, with `sp` after loading. `None` if one of them was also
/// written with other content.
pub(crate) fn filled(metadata: &ProgramMetadata, sp: u64) -> Option<Pages> {
    let (mut filled, mut taken) = (Pages::default(), Pages::default());
    for action in &metadata.actions {
        let pages = Pages::holding(action.addr..action.addr.checked_add(action.size)?);
        if !taken.and(pages).is_empty() {
            return None;
        }
        taken = taken.or(pages);
        // Trailing empty pages have no source: ckb-vm only marks them as changed.
        let start = action.addr.saturating_add(action.offset_from_addr);
        let length = action.source.end.saturating_sub(action.source.start);
        filled = filled.or(Pages::holding(start..start.saturating_add(length)).and(pages));
    }
    let stack_start = (RISCV_MAX_MEMORY - DEFAULT_STACK_SIZE) as u64;
    let arguments = Pages::holding(sp.max(stack_start)..RISCV_MAX_MEMORY as u64);
    filled.and(arguments).is_empty().then_some(filled)
}

#[cfg(test)]
mod tests {
    use ckb_vm::elf::LoadingAction;

    use super::*;

    const PAGE: u64 = 4096;
    const SP: u64 = RISCV_MAX_MEMORY as u64 - 16;

    fn segment(first: u64, pages: u64, bytes: u64) -> LoadingAction {
        LoadingAction {
            addr: first * PAGE,
            size: pages * PAGE,
            flags: 0,
            source: 0..bytes,
            offset_from_addr: 0,
        }
    }

    /// Returns the numbers of the filled pages.
    fn check(actions: Vec<LoadingAction>, sp: u64) -> Option<Vec<usize>> {
        Some(filled(&ProgramMetadata { actions, entry: 0 }, sp)?.ranges().flatten().collect())
    }

    #[test]
    fn segments_side_by_side_come_back() {
        let actions = vec![segment(16, 2, 5000), segment(18, 1, 1), segment(30, 4, 0)];
        assert_eq!(check(actions, SP), Some(vec![16, 17, 18]));
    }

    #[test]
    fn what_lies_over_a_segment_is_lost() {
        assert_eq!(check(vec![segment(16, 2, 8192), segment(17, 1, 4)], SP), None);
        let stack = segment(1023, 1, 4096);
        assert_eq!(check(vec![stack.clone()], SP), None);
        assert_eq!(check(vec![segment(1022, 1, 4096)], SP), Some(vec![1022]));
        assert_eq!(check(vec![segment(1022, 1, 4096)], SP - PAGE), None);
        // A segment without file bytes is not restored.
        assert_eq!(check(vec![segment(1023, 1, 0)], SP), Some(vec![]));
    }
}
