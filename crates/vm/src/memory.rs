//! Guest memory, ckb-vm's machine and the [`State`] of generated code, in one mapping.
//!
//! ```text
//! | guard | head: the fields of AsmCoreMachine | guest memory, 4 MiB | guard | State | guard |
//!                                              ^ base                        ^ base + STATE_OFFSET
//! ```
//! `AsmCoreMachine` ends with its guest memory; it is placed so that this field is page aligned. Its interpreter and
//! native code thus work on the same bytes, and nothing is copied between the tiers but registers.

use std::{
    fmt, io,
    mem::{ManuallyDrop, offset_of},
};

use antares_abi::{GUARD_BYTES, GUEST_MEMORY_BYTES, STATE_OFFSET, State};
use ckb_vm::{
    MEMORY_FRAMESIZE, RISCV_MAX_MEMORY, RISCV_PAGES, RISCV_PAGESIZE,
    machine::asm::{AsmCoreMachine, AsmCoreMachineRevealer},
    memory::{FLAG_DIRTY, FLAG_EXECUTABLE},
};

use crate::{
    VmError,
    limits::PAGE_BYTES,
    mapping::Mapping,
    reserve,
    wiper::{Order, Wiper},
};

/// Bytes of `AsmCoreMachine` before its guest memory.
const HEAD_BYTES: usize = offset_of!(AsmCoreMachine, memory);
/// Pages that hold the head, in bytes.
const HEAD_PAGE_BYTES: usize = HEAD_BYTES.next_multiple_of(PAGE_BYTES);
/// Offset of guest address 0 in the mapping.
const BASE: usize = GUARD_BYTES + HEAD_PAGE_BYTES;
/// Offset of the end of guest memory in the mapping.
const MEMORY_END: usize = BASE + RISCV_MAX_MEMORY;
/// Offset of the state in the mapping.
const STATE: usize = BASE + STATE_OFFSET;
/// Offset of the end of the state's page in the mapping.
const STATE_END: usize = STATE + PAGE_BYTES;
/// Bytes of the whole mapping.
const TOTAL: usize = STATE_END + GUARD_BYTES;

const _: () = assert!(RISCV_MAX_MEMORY as u64 == GUEST_MEMORY_BYTES);
const _: () = assert!(size_of::<AsmCoreMachine>() == HEAD_BYTES + RISCV_MAX_MEMORY);
const _: () = assert!(HEAD_BYTES.is_multiple_of(align_of::<AsmCoreMachine>()));
const _: () = assert!(BASE.is_multiple_of(PAGE_BYTES) && STATE.is_multiple_of(PAGE_BYTES));
const _: () = assert!(size_of::<State>() <= PAGE_BYTES);

/// ckb-vm's machine on memory of ours, shared with native code.
pub struct Core {
    /// Points into `mapping`; never dropped as a box.
    machine: ManuallyDrop<Box<AsmCoreMachine>>,
    /// There until the core is dropped.
    mapping: Option<Mapping>,
    /// Pages of guest memory that are protected from native code; empty if none is.
    protected: Vec<bool>,
    /// Whether the mapping reads as zeros.
    is_clear: bool,
    /// Of all but the state.
    wiper: Wiper,
}

impl Core {
    /// Maps a machine, or takes one from the reserve. [`Core::reset`] makes it ready for a program.
    pub(crate) fn map() -> Result<Self, VmError> {
        let mapping = match reserve::CORES.take() {
            Some(mapping) => mapping,
            None => Self::map_memory()?,
        };
        let machine = mapping.at(BASE - HEAD_BYTES).cast::<AsmCoreMachine>();
        // SAFETY: the bytes from `machine` on, `size_of::<AsmCoreMachine>()` of them, were just opened; `BASE` is
        // page aligned and HEAD_BYTES a multiple of the alignment; all fields are integers, for which zeros are
        // valid. The box is never dropped (`ManuallyDrop`, and nobody takes it out), so the global allocator never
        // sees it; `mapping` lives as long as it does.
        let machine = unsafe { ManuallyDrop::new(Box::from_raw(machine)) };
        Ok(Self {
            machine,
            mapping: Some(mapping),
            protected: Vec::new(),
            is_clear: true,
            wiper: Wiper::new(GUARD_BYTES..MEMORY_END, Order::Any),
        })
    }

    /// Maps the memory of a machine.
    pub(crate) fn map_memory() -> Result<Mapping, VmError> {
        let failed = |source: io::Error| VmError::Map { what: "guest memory", bytes: TOTAL, source };
        let mut mapping = Mapping::reserve(TOTAL).map_err(failed)?;
        mapping.open(GUARD_BYTES..MEMORY_END).map_err(failed)?;
        mapping.open(STATE..STATE_END).map_err(failed)?;
        Ok(mapping)
    }

    fn mapping(&mut self) -> &mut Mapping {
        self.mapping.as_mut().expect("a core has its mapping until it is dropped")
    }

    /// Zeroes guest memory, page flags, traces (they cache decoded instructions of the last program), registers and
    /// cycles, and sets what the next run shall be.
    pub(crate) fn reset(&mut self, isa: u8, vm_version: u32, cycles_max: u64) {
        self.clear();
        self.is_clear = false;
        let machine = &mut self.machine;
        machine.isa = isa;
        machine.version = vm_version;
        machine.max_cycles = cycles_max;
        machine.load_reservation_address = u64::MAX;
        machine.memory_size = GUEST_MEMORY_BYTES;
        machine.frames_size = (RISCV_MAX_MEMORY / MEMORY_FRAMESIZE) as u64;
        machine.flags_size = (RISCV_MAX_MEMORY / RISCV_PAGESIZE) as u64;
        machine.last_read_frame = u64::MAX;
        machine.last_write_page = u64::MAX;
        // A frame that is not marked would be zeroed at its first use; ours are zeros already, and native code
        // does not look.
        machine.frames.fill(1);
    }

    /// Zeroes guest memory and all that belongs to it, unless it is zeros already.
    pub(crate) fn clear(&mut self) {
        self.unprotect();
        if !std::mem::replace(&mut self.is_clear, true)
            && let Some(mapping) = &mut self.mapping
        {
            self.wiper.wipe(mapping);
            // SAFETY: the state's page was opened, and nobody uses it between runs.
            unsafe { mapping.at(STATE).write_bytes(0, PAGE_BYTES) };
        }
    }

    /// Host address of guest address 0.
    pub(crate) fn base(&self) -> *mut u8 {
        match &self.mapping {
            Some(mapping) => mapping.at(BASE),
            None => std::ptr::null_mut(),
        }
    }

    /// Lets native code read guest page `page` alone: it became executable, and the checks of native code do not know.
    pub(crate) fn protect(&mut self, page: usize) {
        self.protected.resize(RISCV_PAGES, false);
        if std::mem::replace(&mut self.protected[page], true) {
            return;
        }
        let start = BASE + page * RISCV_PAGESIZE;
        if let Err(error) = self.mapping().protect(start..start + RISCV_PAGESIZE) {
            panic!("a page of guest memory cannot be protected: {error}");
        }
    }

    /// Undoes [`Core::protect`] for all pages.
    pub(crate) fn unprotect(&mut self) {
        if !std::mem::take(&mut self.protected).is_empty()
            && let Err(error) = self.mapping().open(BASE..MEMORY_END)
        {
            panic!("guest memory cannot be opened: {error}");
        }
    }

    /// Whether a syscall has put another program into the machine since the last call. If so, memory that ckb-vm
    /// would clear when it is first used is cleared.
    pub(crate) fn was_reset(&mut self) -> bool {
        let machine: &mut AsmCoreMachine = &mut self.machine;
        if std::mem::take(&mut machine.reset_signal) == 0 {
            return false;
        }
        for (frame, memory) in
            machine.frames.iter_mut().zip(machine.memory.chunks_exact_mut(MEMORY_FRAMESIZE))
        {
            if *frame == 0 {
                memory.fill(0);
                *frame = 1;
            }
        }
        true
    }

    /// Marks as changed all pages that may have been: native code does not mark what it writes.
    pub(crate) fn mark_changes(&mut self) {
        let touched = self.mapping().touched(BASE..MEMORY_END).unwrap_or_else(|| vec![true; RISCV_PAGES]);
        let machine = &mut self.machine;
        let machine: &mut AsmCoreMachine = machine;
        let pages = machine.memory.chunks_exact(RISCV_PAGESIZE);
        for ((flags, page), is_touched) in machine.flags.iter_mut().zip(pages).zip(touched) {
            // What is executable cannot have been written.
            if is_touched && *flags & FLAG_EXECUTABLE == 0 && page != ZEROS {
                *flags |= FLAG_DIRTY;
            }
        }
        machine.last_write_page = u64::MAX;
    }

    /// Page flags.
    pub(crate) fn flags(&self) -> &[u8] {
        &self.machine.flags
    }

    /// Guest memory.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.machine.memory
    }

    /// Guest registers `x0..x31`.
    pub(crate) fn guest_registers(&self) -> &[u64; 32] {
        &self.machine.registers
    }

    /// Takes over all guest registers.
    pub(crate) fn set_guest_registers(&mut self, registers: &[u64; 32]) {
        self.machine.registers = *registers;
        self.machine.registers[0] = 0;
    }
}

/// A page as it is before anybody writes to it.
static ZEROS: [u8; RISCV_PAGESIZE] = [0; RISCV_PAGESIZE];

impl Drop for Core {
    fn drop(&mut self) {
        if !reserve::CORES.has_room() {
            return;
        }
        self.clear();
        if let Some(mapping) = self.mapping.take() {
            reserve::CORES.give(mapping);
        }
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("mapping", &self.mapping).finish_non_exhaustive()
    }
}

/// The state that belongs to `base`.
pub(crate) fn state_of(base: *mut u8) -> *mut State {
    base.wrapping_add(STATE_OFFSET).cast()
}

impl AsRef<Box<AsmCoreMachine>> for Core {
    fn as_ref(&self) -> &Box<AsmCoreMachine> {
        &self.machine
    }
}

impl AsMut<Box<AsmCoreMachine>> for Core {
    fn as_mut(&mut self) -> &mut Box<AsmCoreMachine> {
        &mut self.machine
    }
}

impl AsmCoreMachineRevealer for Core {
    /// # Panics
    /// When the kernel refuses memory, or `memory_size` is not ckb-vm's 4 MiB: ckb-vm's trait has no way to answer.
    fn new(isa: u8, version: u32, max_cycles: u64, memory_size: usize) -> Self {
        assert_eq!(memory_size, RISCV_MAX_MEMORY, "generated code knows one size of guest memory");
        let mut core = match Self::map() {
            Ok(core) => core,
            Err(error) => panic!("{error}: {:?}", std::error::Error::source(&error)),
        };
        core.reset(isa, version, max_cycles);
        core
    }
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use ckb_vm::{CoreMachine, Memory, SupportMachine};

    use super::*;

    #[test]
    fn base_is_page_aligned_and_the_machine_s_memory() {
        let core = <Core as AsmCoreMachineRevealer>::new(0, 2, 1, RISCV_MAX_MEMORY);
        assert_eq!(core.base() as usize % PAGE_BYTES, 0);
        assert!(ptr::eq(core.base(), core.bytes().as_ptr()));
    }

    #[test]
    fn reset_leaves_nothing_of_the_last_program() {
        let mut core = <Core as AsmCoreMachineRevealer>::new(3, 1, 77, RISCV_MAX_MEMORY);
        core.store_bytes(0, &[1; RISCV_MAX_MEMORY]).unwrap();
        core.set_flag(5, FLAG_EXECUTABLE).unwrap();
        core.set_register(10, 9);
        core.set_cycles(8);
        core.as_mut().traces[3].address = 0x1000;
        core.reset(0, 2, 11);
        assert!(core.bytes().iter().all(|byte| *byte == 0));
        assert_eq!((core.fetch_flag(5), core.cycles(), core.max_cycles()), (Ok(0), 0, 11));
        assert_eq!((core.guest_registers(), core.as_ref().traces[3].address), (&[0; 32], 0));
        assert_eq!((core.isa(), core.version()), (0, 2));
    }
}
