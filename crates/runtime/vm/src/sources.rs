//! Why a VM that ckb-script has put aside comes back as it was, though native code marks no page that it
//! writes.
//!
//! ckb-vm saves the pages that were written since they were filled, and takes the others back from where they
//! came: a cell or a witness, or zeros (`snapshot2.rs`). So what comes back is what was there, whichever
//! pages were marked, if each page that was not written still has the bytes of its source. Then it is enough
//! to mark all pages whose bytes differ from their source, and to mark more of them changes nothing.
//! [`Core::mark_changes`](crate::memory::Core::mark_changes) marks all that were touched and have a source,
//! or are not zeros.
//!
//! Pages that were not written and differ from their source all the same can only come from the loader, which
//! notes sources when all segments and the arguments are in memory: the later of two segments, or the
//! arguments, are then lost in what the first segment has filled. Such a program is left to the interpreter,
//! which marks what ckb-vm marks ([`filled`]). (Code that is loaded at run time can differ too, but cannot be
//! written.)

use ckb_vm::{DEFAULT_STACK_SIZE, RISCV_MAX_MEMORY, elf::ProgramMetadata};

use crate::pages::Pages;

/// The pages that the loader has filled from the ELF, with `sp` where it left the stack. None if something
/// else was written to one of them.
pub(crate) fn filled(metadata: &ProgramMetadata, sp: u64) -> Option<Pages> {
    let (mut filled, mut taken) = (Pages::default(), Pages::default());
    for action in &metadata.actions {
        let pages = Pages::holding(action.addr..action.addr.checked_add(action.size)?);
        if !taken.and(pages).is_empty() {
            return None;
        }
        taken = taken.or(pages);
        // Empty pages behind have no source: ckb-vm marks them as changed, and knows nothing else of them.
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

    /// The numbers of the filled pages.
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
        // Without bytes of the file nothing is taken back.
        assert_eq!(check(vec![segment(1023, 1, 0)], SP), Some(vec![]));
    }
}
