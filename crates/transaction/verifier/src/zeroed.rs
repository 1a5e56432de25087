//! ckb-vm's machine on memory that the system has zeroed. ckb-vm's own constructor zeroes 2.4 MiB of decoded
//! instructions, and 256 KiB around each byte that a script touches. The system maps these roughly 700 pages
//! one at a time, which takes longer than most scripts run.
#![allow(unsafe_code, reason = "ckb-vm has no safe constructor of a machine that skips its own zeroing")]

use std::{
    mem::ManuallyDrop,
    sync::{Mutex, PoisonError},
};

use ckb_vm::{
    MEMORY_FRAMES, RISCV_GENERAL_REGISTER_NUMBER, RISCV_MAX_MEMORY, RISCV_PAGES,
    machine::asm::{AsmCoreMachine, AsmCoreMachineRevealer},
};

/// Maximum spare machines: as many as ckb-script has live at once.
const SPARES_MAX: usize = 4;

/// Used machines for reuse, not wiped yet.
static SPARES: Mutex<Vec<Box<AsmCoreMachine>>> = Mutex::new(Vec::new());

/// ckb-vm's machine, with the behavior of its own `Box`.
pub struct ZeroedMachine(ManuallyDrop<Box<AsmCoreMachine>>);

impl AsmCoreMachineRevealer for ZeroedMachine {
    /// # Panics
    /// If `memory_size` is not ckb-vm's 4 MiB: ckb-vm's trait cannot return an error.
    fn new(isa: u8, version: u32, max_cycles: u64, memory_size: usize) -> Self {
        assert_eq!(memory_size, RISCV_MAX_MEMORY, "ckb-script knows one size of memory");
        let spare = SPARES.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut machine = spare.map_or_else(zeroed, wiped);
        machine.max_cycles = max_cycles;
        machine.load_reservation_address = u64::MAX;
        machine.version = version;
        machine.isa = isa;
        machine.memory_size = memory_size as u64;
        machine.frames_size = MEMORY_FRAMES as u64;
        machine.flags_size = RISCV_PAGES as u64;
        machine.last_read_frame = u64::MAX;
        machine.last_write_page = u64::MAX;
        Self(ManuallyDrop::new(machine))
    }
}

/// A zeroed machine, whose frames are marked so that ckb-vm does not zero them again.
fn zeroed() -> Box<AsmCoreMachine> {
    // SAFETY: all fields are integers and arrays of them, for which zeros are valid.
    let mut machine = unsafe { Box::<AsmCoreMachine>::new_zeroed().assume_init() };
    machine.frames = [1; MEMORY_FRAMES];
    machine
}

/// Resets a used machine like ckb-vm's constructor: memory is zeroed frame by frame at its first use.
fn wiped(mut machine: Box<AsmCoreMachine>) -> Box<AsmCoreMachine> {
    machine.registers = [0; RISCV_GENERAL_REGISTER_NUMBER];
    (machine.pc, machine.next_pc, machine.cycles) = (0, 0, 0);
    (machine.running, machine.reset_signal) = (0, 0);
    (machine.chaos_mode, machine.chaos_seed) = (0, 0);
    machine.flags = [0; RISCV_PAGES];
    machine.frames = [0; MEMORY_FRAMES];
    machine.traces.fill_with(Default::default);
    machine
}

impl Drop for ZeroedMachine {
    fn drop(&mut self) {
        // SAFETY: this is the only place that takes the box out, and a dropped value is never used again.
        let machine = unsafe { ManuallyDrop::take(&mut self.0) };
        let mut spares = SPARES.lock().unwrap_or_else(PoisonError::into_inner);
        if spares.len() < SPARES_MAX {
            spares.push(machine);
        }
    }
}

impl AsRef<Box<AsmCoreMachine>> for ZeroedMachine {
    fn as_ref(&self) -> &Box<AsmCoreMachine> {
        &self.0
    }
}

impl AsMut<Box<AsmCoreMachine>> for ZeroedMachine {
    fn as_mut(&mut self) -> &mut Box<AsmCoreMachine> {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use ckb_vm::{
        Bytes, CoreMachine as _, MEMORY_FRAMESIZE, Memory as _, SupportMachine as _, memory::FLAG_EXECUTABLE,
    };

    use super::*;

    /// All state of a machine that is observable from outside.
    fn exposed<M: AsmCoreMachineRevealer>(machine: &mut M) -> (Vec<u64>, Vec<u8>, Vec<Bytes>) {
        let core: &AsmCoreMachine = machine.as_ref();
        let mut words = core.registers.to_vec();
        words.extend([core.pc, core.next_pc, core.cycles, core.max_cycles, core.load_reservation_address]);
        words.extend([core.memory_size, core.frames_size, core.flags_size]);
        words.extend([core.last_read_frame, core.last_write_page]);
        words.extend([core.running, core.chaos_mode, core.reset_signal, core.isa].map(u64::from));
        words.extend([core.version, core.chaos_seed].map(u64::from));
        for trace in &core.traces {
            words.extend([trace.address, trace.length.into(), trace.cycles]);
            words.extend(trace.instructions.iter().chain(&trace.thread));
        }
        let flags = core.flags.to_vec();
        let frames = 0..MEMORY_FRAMES as u64;
        let bytes = MEMORY_FRAMESIZE as u64;
        (words, flags, frames.map(|frame| machine.load_bytes(frame * bytes, bytes).unwrap()).collect())
    }

    fn made<M: AsmCoreMachineRevealer>() -> M {
        <M as AsmCoreMachineRevealer>::new(3, 2, 77, RISCV_MAX_MEMORY)
    }

    #[test]
    fn a_machine_is_as_ckb_vm_makes_it_new_or_used() {
        let expected = exposed(&mut made::<Box<AsmCoreMachine>>());
        let mut first: ZeroedMachine = made();
        assert!(exposed(&mut first) == expected);
        first.store_bytes(0x1234, b"left behind").unwrap();
        first.set_flag(3, FLAG_EXECUTABLE).unwrap();
        first.set_register(5, 9);
        first.update_pc(0x1000);
        first.commit_pc();
        first.set_cycles(5);
        first.set_running(true);
        first.as_mut().traces[8].address = 4;
        let place: *const AsmCoreMachine = &raw const **first.as_ref();
        drop(first);
        let mut second: ZeroedMachine = made();
        assert!(std::ptr::eq(place, &raw const **second.as_ref()), "it is not the one that was used");
        assert!(exposed(&mut second) == expected);
    }
}
