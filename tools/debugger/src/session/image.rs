//! The state of a VM at one moment; shares pages with the previous image.

use std::sync::Arc;

use antares_vm::Steppable;
use ckb_vm::{
    MEMORY_FRAMESIZE, RISCV_PAGES, RISCV_PAGESIZE, SupportMachine as _, machine::asm::AsmCoreMachine,
};

/// Pages of a frame, the unit that ckb-vm initialises at once.
const FRAME_PAGES: usize = MEMORY_FRAMESIZE / RISCV_PAGESIZE;

/// Bytes of a page.
type Page = [u8; RISCV_PAGESIZE];

/// Registers of a VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    /// The general ones.
    pub general: [u64; 32],
    /// Program counter.
    pub pc: u64,
}

impl Registers {
    pub(crate) fn of(core: &AsmCoreMachine) -> Self {
        Self { general: core.registers, pc: core.pc }
    }
}

/// The state of a VM.
pub(crate) struct Image {
    place: Registers,
    cycles: u64,
    reservation: u64,
    flags: Box<[u8; RISCV_PAGES]>,
    /// `None` for a page of zeros.
    pages: Vec<Option<Arc<Page>>>,
    /// Bytes of pages that are not shared with the previous image.
    pub(crate) own_bytes: usize,
}

impl Image {
    /// The state of `vm`; shares equal pages with `before`.
    pub(crate) fn of(vm: &mut Steppable, before: Option<&Self>) -> Self {
        let core: &AsmCoreMachine = vm.inner_mut();
        let (mut pages, mut own_bytes) = (Vec::with_capacity(RISCV_PAGES), 0);
        for (index, page) in core.memory.as_chunks::<RISCV_PAGESIZE>().0.iter().enumerate() {
            let is_there = core.frames[index / FRAME_PAGES] != 0;
            let known = before.and_then(|before| before.pages[index].as_ref());
            pages.push(match known {
                _ if !is_there => None,
                Some(known) if **known == *page => Some(known.clone()),
                None if page.iter().all(|byte| *byte == 0) => None,
                _ => {
                    own_bytes += RISCV_PAGESIZE;
                    Some(Arc::new(*page))
                }
            });
        }
        Self {
            place: Registers::of(core),
            cycles: core.cycles,
            reservation: core.load_reservation_address,
            flags: Box::new(core.flags),
            pages,
            own_bytes,
        }
    }

    /// Sets `vm` to this state. Its decoded code must be discarded.
    pub(crate) fn put(&self, vm: &mut Steppable) {
        vm.set_running(true);
        let core: &mut AsmCoreMachine = vm.inner_mut();
        core.registers = self.place.general;
        (core.pc, core.next_pc) = (self.place.pc, self.place.pc);
        core.cycles = self.cycles;
        core.load_reservation_address = self.reservation;
        core.flags = *self.flags;
        core.reset_signal = 0;
        (core.last_read_frame, core.last_write_page) = (u64::MAX, u64::MAX);
        let frames = core.memory.as_chunks_mut::<RISCV_PAGESIZE>().0.chunks_mut(FRAME_PAGES);
        let kept = self.pages.chunks(FRAME_PAGES);
        for ((memory, kept), is_there) in frames.zip(kept).zip(&mut core.frames) {
            // ckb-vm zeroes the frame at its first use.
            *is_there = u8::from(kept.iter().any(Option::is_some));
            if *is_there != 0 {
                for (page, kept) in memory.iter_mut().zip(kept) {
                    match kept {
                        Some(kept) => *page = **kept,
                        None => page.fill(0),
                    }
                }
            }
        }
    }
}
