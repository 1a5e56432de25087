//! Single instructions that can be undone without an image, by their changes. All replays to a moment are
//! equal, so changes recorded in one are valid for all.

use antares_vm::{Steppable, Touch};
use ckb_vm::{CoreMachine as _, SupportMachine as _};

use super::{image::Registers, tape::Moment};

/// The changes of one instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Undo {
    place: Registers,
    cycles: u64,
    reservation: u64,
    written: Option<(usize, usize, [u8; 8])>,
    /// Cycles before the previous single step.
    pub(crate) before: u64,
}

impl Undo {
    /// Records the next instruction of `vm`, which accesses `touch`.
    pub(crate) fn of(vm: &mut Steppable, touch: Option<Touch>, before: u64) -> Self {
        let cycles = vm.cycles();
        let core = vm.inner_mut();
        let written = touch.filter(|touch| touch.writes).and_then(|touch| {
            let (address, bytes) = (usize::try_from(touch.address).ok()?, usize::from(touch.bytes));
            // What is not initialised yet is zeros, as soon as it is.
            let end = address.checked_add(bytes)?;
            let mut old = [0; 8];
            let is_there =
                |at: usize| core.frames.get(at / ckb_vm::MEMORY_FRAMESIZE).is_some_and(|frame| *frame != 0);
            if is_there(address) && is_there(end - 1) {
                old.get_mut(..bytes)?.copy_from_slice(core.memory.get(address..end)?);
            }
            Some((address, bytes, old))
        });
        let reservation = core.load_reservation_address;
        Self { place: Registers::of(core), cycles, reservation, written, before }
    }

    /// Undoes the instruction.
    pub(crate) fn undo(&self, vm: &mut Steppable) {
        vm.set_cycles(self.cycles);
        vm.inner_mut().update_pc(self.place.pc);
        vm.inner_mut().commit_pc();
        let core = vm.inner_mut();
        core.registers = self.place.general;
        core.load_reservation_address = self.reservation;
        if let Some((address, bytes, old)) = &self.written
            && let Some(memory) = core.memory.get_mut(*address..address + bytes)
        {
            memory.copy_from_slice(&old[..*bytes]);
        }
    }
}

/// Consecutive instructions that lead to a moment.
#[derive(Debug, Default)]
pub(crate) struct Undos {
    steps: Vec<Undo>,
    /// The moment after the last one.
    end: Moment,
}

impl Undos {
    /// Records an instruction that leads to `end`; `None` if it cannot be undone.
    pub(crate) fn record(&mut self, undo: Option<Undo>, begin: Moment, end: Moment) {
        if self.end != begin || undo.is_none() {
            self.steps.clear();
        }
        self.steps.extend(undo);
        self.end = end;
    }

    /// Removes the instruction that leads to `now`.
    pub(crate) fn take(&mut self, now: Moment) -> Option<Undo> {
        let undo = self.steps.pop_if(|_| self.end == now)?;
        self.end.cycles = undo.cycles;
        Some(undo)
    }
}
